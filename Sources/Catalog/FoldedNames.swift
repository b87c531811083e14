package import Model
internal import Platform
internal import Synchronization
package import SystemPackage

/// Of directories that someone asked about, which names are alike but for case and Unicode form.
/// Kept in memory and up to date; a directory is read once, in pages, so that no other request
/// waits for it.
///
/// Its lock is a leaf: the catalog tells of changes while it holds its own.
final class FoldedNames: Sendable {
  private enum Knowledge {
    /// Being read; what changes meanwhile counts more than what was read.
    case building([ItemName: Bool])
    case built([FoldedName: [ItemName]], count: Int)
  }

  private struct State {
    var directories: [InodeNumber: Knowledge] = [:]
    var count = 0
  }

  /// More names than this are not kept.
  private static let mostNames = 500_000

  private let state = Lock(State())
  /// So that whoever never asks pays nothing.
  private let isUsed = Atomic<Bool>(false)

  /// A name came or went, perhaps not for the first time.
  func changed(_ parent: InodeNumber, _ name: ItemName, isThere: Bool) {
    guard isUsed.load(ordering: .relaxed) else { return }
    state.withLock { state in
      switch state.directories[parent] {
      case nil: break
      case .building(var changes):
        state.directories[parent] = nil
        changes[name] = isThere
        state.directories[parent] = .building(changes)
      case .built(var names, var count):
        guard let folded = FoldedName(name) else { return }
        // Out of the table while it is changed, or it would be copied.
        state.directories[parent] = nil
        var alike = names[folded] ?? []
        let before = alike.count
        alike.removeAll { $0 == name }
        if isThere { alike.append(name) }
        names[folded] = alike.isEmpty ? nil : alike
        count += alike.count - before
        state.count += alike.count - before
        state.directories[parent] = .built(names, count: count)
      }
    }
  }

  /// Nil: not known.
  fileprivate func alike(_ folded: FoldedName, in parent: InodeNumber) -> [ItemName]? {
    state.withLock { state in
      guard case .built(let names, _) = state.directories[parent] else { return nil }
      return names[folded] ?? []
    }
  }

  /// False: another thread is at it.
  fileprivate func begin(_ parent: InodeNumber) -> Bool {
    isUsed.store(true, ordering: .relaxed)
    return state.withLock { state in
      guard state.directories[parent] == nil else { return false }
      state.directories[parent] = .building([:])
      return true
    }
  }

  fileprivate func finish(_ parent: InodeNumber, _ read: [FoldedName: [ItemName]]?) {
    state.withLock { state in
      guard case .building(let changes) = state.directories[parent] else { return }
      state.directories[parent] = nil
      guard var names = read else { return }
      for (name, isThere) in changes {
        guard let folded = FoldedName(name) else { continue }
        names[folded, default: []].removeAll { $0 == name }
        if isThere { names[folded, default: []].append(name) }
        if names[folded]?.isEmpty == true { names[folded] = nil }
      }
      let count = names.values.reduce(0) { $0 + $1.count }
      guard count <= Self.mostNames else { return }
      if state.count + count > Self.mostNames {
        // What is being read has to be told of changes still.
        state.directories = state.directories.filter {
          if case .building = $0.value { true } else { false }
        }
        state.count = 0
      }
      state.count += count
      state.directories[parent] = .built(names, count: count)
    }
  }
}

extension ContainerCatalog {
  /// The names in a directory that differ from this one at most in case and Unicode form, itself
  /// among them if it is there; in no particular order.
  package func names(like name: ItemName, in parent: InodeNumber) throws(Errno) -> [ItemName] {
    guard let folded = FoldedName(name) else {
      return try lookup(name, in: parent) == nil ? [] : [name]
    }
    if let known = foldedNames.alike(folded, in: parent) { return known }
    let isMine = foldedNames.begin(parent)
    var read: [FoldedName: [ItemName]] = [:]
    do throws(Errno) {
      var offset: Int64 = 0
      while true {
        let page = try readNames(parent, after: offset, limit: 4096)
        for entry in page {
          guard let folded = FoldedName(entry.name) else { continue }
          read[folded, default: []].append(entry.name)
        }
        guard let last = page.last else { break }
        offset = last.offset
      }
    } catch {
      if isMine { foldedNames.finish(parent, nil) }
      throw error
    }
    let result = read[folded] ?? []
    if isMine { foldedNames.finish(parent, read) }
    return result
  }

  /// Whether a name of the item differs from that of a neighbour in case or Unicode form alone: on
  /// a system that takes them for one only one of the two can be opened.
  package func hasNameCollision(_ number: InodeNumber) throws(Errno) -> Bool {
    for link in try run({ try $0.links(of: number) })
    where try names(like: link.name, in: link.parent).count > 1 {
      return true
    }
    return false
  }
}
