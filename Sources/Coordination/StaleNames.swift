package import Catalog
package import Model
internal import Platform

/// A name in a directory, as the kernel has it.
package struct KernelName: Hashable, Sendable {
  let parent: InodeNumber
  let name: ItemName

  package init(_ parent: InodeNumber, _ name: ItemName) {
    self.parent = parent
    self.name = name
  }
}

/// The names by which the kernel may know another inode than the catalog.
///
/// A change of another device counts from before its commit until the kernel has forgotten the
/// names. The kernel locks a directory to forget a name in it, and for the whole of a rename or
/// removal. So if a program's request meets a change in the catalog, the change still counts, or
/// the kernel had forgotten the name before the request began. For an exact answer before a request
/// is carried out, ask under the catalog's lock.
///
/// A program may give one of those inodes a new name. That name is in doubt until the kernel has
/// heard of it. Any thread. The lock is a leaf.
package final class StaleNames: Sendable {
  private struct State {
    var changes = 0
    var doubted: [KernelName: Int] = [:]
    /// By thread, the name of the request that was refused and comes again.
    var refused: [Int32: ItemName] = [:]

    func isStale(_ name: KernelName) -> Bool { changes > 0 || doubted[name] != nil }
  }

  /// A request does not come again if nothing has the name now, or if its program was killed.
  private static let limit = 64

  private let state = Lock(State())

  package init() {}

  package func begin() { state.withLock { $0.changes += 1 } }
  package func end() { state.withLock { $0.changes -= 1 } }

  package func begin(doubting names: [KernelName]) {
    state.withLock { state in
      for name in names { state.doubted[name, default: 0] += 1 }
    }
  }

  package func end(doubting names: [KernelName]) {
    state.withLock { state in
      for name in names {
        let count = (state.doubted[name] ?? 1) - 1
        state.doubted[name] = count > 0 ? count : nil
      }
    }
  }

  package func isStale(_ name: KernelName) -> Bool { state.withLock { $0.isStale(name) } }

  /// Once for each request of a thread: the kernel tries a second time, and not a third. It walks
  /// the whole path again then, so the directory may be another one.
  package func mustAskAgain(_ name: KernelName, by thread: Int32) -> Bool {
    state.withLock { state in
      if state.refused.removeValue(forKey: thread) == name.name { return false }
      guard thread != 0, state.isStale(name) else { return false }
      if state.refused.count >= Self.limit, let any = state.refused.keys.first {
        state.refused[any] = nil
      }
      state.refused[thread] = name.name
      return true
    }
  }
}
