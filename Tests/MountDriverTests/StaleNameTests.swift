import Catalog
import Coordination
import Glibc
import Model
import MountDriver
import Platform
import SystemPackage
import TestWaiting
import Testing

/// Programs rename and remove what another device has changed, before the kernel has heard of it.
@Suite(.enabled(if: access("/dev/fuse", R_OK | W_OK) == 0))
struct StaleNameTests {
  struct Case: Sendable {
    let renames: [(old: String, new: String)]
    /// 2 is RENAME_EXCHANGE.
    var flags = 0
    let shown: [(name: String, content: String)]
  }

  static let cases = [
    Case(renames: [("f", "l")], shown: [("l", "theirs"), ("f 2", "ours"), ("k", "third")]),
    Case(renames: [("f", "k")], shown: [("k", "theirs"), ("f 2", "ours")]),
    Case(renames: [("f", "l"), ("l", "m")], shown: [("m", "theirs"), ("f 2", "ours")]),
    Case(renames: [("f", "k")], flags: 2, shown: [("k", "theirs"), ("f", "third")]),
    Case(renames: [("k", "f")], flags: 2, shown: [("k", "theirs"), ("f", "third")]),
  ]

  @Test(
    "the new name of what a program renames before the kernel heard of it shows the right file",
    arguments: cases)
  func renamedBeforeHeard(_ test: Case) async throws {
    let mounted = try Mounted()
    let made = try await mounted.run("echo ours > f; echo theirs > g; echo third > k; cat f k")
    #expect(made.output == "ours\nthird\n")
    let renames = test.renames.map { old, new in
      "assert renameat2(-100, b'\(old)', -100, b'\(new)', \(test.flags)) == 0"
    }
    let program = try await mounted.whileUnheard(moving: "f") {
      try await mounted.run(
        """
        python3 -I -c "import ctypes; renameat2 = ctypes.CDLL(None).renameat2
        \(renames.joined(separator: "\n"))"
        """)
    }
    #expect(program.status == 0, "\(program.output)")
    for (name, content) in test.shown {
      let shown = try await mounted.run("cat '\(name)'")
      #expect(shown.output == content + "\n", "\(name)")
    }
    try mounted.mount.unmount()
  }

  @Test(
    "a directory stays usable if a program removes or replaces another one that has its name now",
    arguments: [("rmdir f", "f 2\n"), ("mkdir e; mv -T e f", "f\nf 2\n")])
  func removedBeforeHeard(
    _ test: (script: String, names: String)
  ) async throws {
    let mounted = try Mounted()
    // A program in the directory keeps the kernel from forgetting it.
    let made = try await mounted.run(
      "mkdir f g; echo ours > f/in; (cd f; exec sleep 600 > /dev/null 2>&1) & echo $!")
    let holder = try #require(Int32(made.output.dropLast()))
    defer { kill(holder, SIGKILL) }
    let program = try await mounted.whileUnheard(moving: "f") {
      try await mounted.run(test.script)
    }
    #expect(program.status == 0, "\(program.output)")
    let shown = try await mounted.run("echo more > 'f 2/other'; cat 'f 2/in' 'f 2/other'; ls -d f*")
    #expect(shown.output == "ours\nmore\n" + test.names)
    kill(holder, SIGKILL)
    try await eventually("the mount is not busy") { try mounted.unmountedUnlessBusy() }
  }

  @Test("a file that takes a name in other letters is found until another device renames it")
  func replacedInOtherLetters() async throws {
    let mounted = try Mounted(foldsCase: true)
    let made = try await mounted.run(
      """
      echo old > k; echo new > f; cat k f; python3 -I -c "import os; os.rename('f', 'K')"
      """)
    #expect(made.output == "old\nnew\n")
    #expect(mounted.mount.waitForInvalidations())
    let both = try await mounted.run("cat K k")
    #expect(both.output == "new\nnew\n")
    let coordinator = mounted.coordinator
    let names = try ["k", "l"].map { try ItemName($0) }
    try coordinator.changeNames { () throws(Errno) in
      _ = try coordinator.catalog.rename(
        names[0], in: .root, to: names[1], in: .root, mode: .noReplace)
      return ((), names.map { .entry(parent: .root, name: $0) })
    }
    #expect(mounted.mount.waitForInvalidations())
    let shown = try await mounted.run("cat L; cat K || ls")
    #expect(shown.output == "new\ncat: K: No such file or directory\nDocuments\nl\n")
    try mounted.mount.unmount()
  }
}

extension Mounted {
  /// Renames `name` to `name 2`, and `g` to `name`, as the sync engine does what another device
  /// did. Runs the program when the catalog has that, and before the kernel hears of it.
  fileprivate func whileUnheard(
    moving name: String, _ program: () async throws -> Outcome
  ) async throws -> Outcome {
    let names = try [name, name + " 2", "g"].map { try ItemName($0) }
    let (changed, ended, heard) = (Gate(), Gate(), Gate())
    let failure = Lock<Errno?>(nil)
    let queue = WorkQueue()
    defer {
      ended.open()
      queue.stop()
    }
    queue.add { [coordinator] in
      do throws(Errno) {
        try coordinator.changeNames { () throws(Errno) in
          _ = try coordinator.catalog.rename(
            names[0], in: .root, to: names[1], in: .root, mode: .noReplace)
          _ = try coordinator.catalog.rename(
            names[2], in: .root, to: names[0], in: .root, mode: .noReplace)
          changed.open()
          ended.wait()
          return ((), names.map { .entry(parent: .root, name: $0) })
        }
      } catch {
        failure.withLock { $0 = error }
        changed.open()
      }
      heard.open()
    }
    // `wait` for longer would block the thread, which the child processes of the test need too.
    try await eventually("the catalog has the new names") { changed.wait(milliseconds: 0) }
    let outcome = try await program()
    ended.open()
    try await eventually("the names are changed") { heard.wait(milliseconds: 0) }
    #expect(failure.withLock { $0 } == nil)
    #expect(mount.waitForInvalidations())
    return outcome
  }
}
