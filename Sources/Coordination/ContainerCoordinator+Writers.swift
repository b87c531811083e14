package import Catalog
package import Platform

/// A program that has a file open.
package struct OpeningProgram: Hashable, Sendable {
  package let process: Int32
  package let name: String
}

/// Files that programs have open for writing: by whom, and whether they are in the midst of
/// something.
extension ContainerCoordinator {
  /// The programs that opened a file for writing and still run. One that only inherited the open
  /// file is not among them.
  package func writingPrograms(_ number: InodeNumber) -> [OpeningProgram] {
    Set(writingProcesses(number)).filter { !Processes.isGone($0) }
      .map { Processes.process(ofThread: $0) }.sorted()
      .reduce(into: [OpeningProgram]()) { programs, process in
        guard programs.last?.process != process else { return }
        programs.append(
          OpeningProgram(process: process, name: Processes.command(of: process) ?? "?"))
      }
  }

  /// Brings the row of a file that the kernel writes to by itself up to date.
  package func lookAtContent(_ number: InodeNumber) { contentObserver?(number) }

  /// Locks in the mount; nil where that cannot be told.
  package var fileLocks: FileLocks? { lockReader?() }

  /// Whether a lock concerns the file: one on it, or on another file of a program that has this one
  /// open. Databases lock one of their files while they write to others.
  package func isLocked(_ number: InodeNumber, _ locks: FileLocks) -> Bool {
    guard !locks.inodes.isEmpty else { return false }
    if locks.inodes.contains(number.rawValue) { return true }
    let (writers, programs) = openers(number)
    // Somebody that is not known may hold any of them.
    guard writers <= programs.count, !programs.contains(where: Processes.isGone) else {
      return true
    }
    let own = Set(programs.map { Processes.process(ofThread: $0) })
    guard locks.processes.isDisjoint(with: own) else { return true }
    return locks.inodes.contains { locked in
      let others = openers(InodeNumber(locked)).programs
      return others.contains { own.contains(Processes.process(ofThread: $0)) }
    }
  }
}
