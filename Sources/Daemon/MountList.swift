internal import FoundationEssentials
package import Model
package import MountDriver
internal import Platform
internal import SystemPackage

/// What is mounted, in a file that outlives a daemon that dies: the next one mounts it again. A
/// mount that ends in any other way is not in it any more. The lock is a leaf, held over a small
/// write.
package final class MountList: Sendable {
  package struct Entry: Sendable {
    package let container: ContainerID
    package let mountpoint: String
    package let options: MountOptions

    package init(_ container: ContainerID, _ mountpoint: String, _ options: MountOptions) {
      self.container = container
      self.mountpoint = mountpoint
      self.options = options
    }
  }

  private struct Stored: Codable {
    var container: String
    var mountpoint: String
    var options: String
  }

  private let path: String
  private let list: Lock<[Entry]>

  package init(path: String) {
    self.path = path
    list = Lock(Self.read(path))
  }

  /// None where the file is not understood.
  private static func read(_ path: String) -> [Entry] {
    guard let text = Files.smallText(path, limit: 1 << 20),
      let stored = try? BoundedJSON.decode([Stored].self, from: text.utf8)
    else { return [] }
    return stored.compactMap { one in
      guard let id = try? ContainerID(one.container), one.mountpoint.hasPrefix("/"),
        let options = try? MountOptions(parsing: [one.options])
      else { return nil }
      return Entry(id, one.mountpoint, options)
    }
  }

  package var entries: [Entry] { list.withLock { $0 } }

  package func add(_ entry: Entry) {
    change { list in
      list.removeAll { $0.container == entry.container }
      list.append(entry)
    }
  }

  package func remove(_ container: ContainerID) {
    change { $0.removeAll { $0.container == container } }
  }

  private func change(_ body: (inout [Entry]) -> Void) {
    list.withLock { list in
      body(&list)
      let stored = list.map {
        Stored(
          container: $0.container.description, mountpoint: $0.mountpoint, options: $0.options.text)
      }
      // Without it a mount is not restored; it is there all the same.
      guard let bytes = try? JSONEncoder().encode(stored) else { return }
      try? Files.replace(path, with: Array(bytes) + [0x0A])
    }
  }
}
