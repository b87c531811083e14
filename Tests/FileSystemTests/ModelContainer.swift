import Catalog
import ContentStore
import Coordination
import FileSystem
import Glibc
import Model
import Platform
import SystemPackage

/// Goes on by a microsecond each time it is asked, so that every step has times of its own.
final class SteppingClock: WallClock {
  private let time = Lock<Int64>(1_700_000_000_000_000_000)

  func nanoseconds() -> Int64 {
    time.withLock { time in
      time += 1000
      return time
    }
  }
}

/// A container that can be stopped and started, cleanly or as if its process were killed.
final class ModelContainer: Sendable {
  private final class Parts: Sendable {
    let catalog: ContainerCatalog
    let content: ContentFiles
    let system: ContainerFileSystem

    init(directory: String, clock: any WallClock) throws {
      catalog = try ContainerCatalog(
        path: directory + "/catalog.sqlite", owner: 0, group: 0, clock: clock)
      content = try ContentFiles(directory: directory + "/content")
      let content = content
      // As a daemon does at its start.
      if catalog.endedUncleanly {
        _ = try catalog.recover { key throws(Errno) in
          try content.found(key).map {
            FoundContent(size: $0.size, modified: $0.modified, blocks: $0.blocks)
          }
        }
      }
      for key in try catalog.unneededContent(among: try content.keys()) { try content.remove(key) }
      system = ContainerFileSystem(
        coordinator: ContainerCoordinator(
          container: try ContainerID("iCloud.com.example.model"), catalog: catalog,
          content: content), clock: clock)
    }
  }

  let directory: String
  let clock = SteppingClock()
  private let parts: Lock<Parts?>

  private var now: Parts {
    guard let parts = parts.withLock({ $0 }) else { fatalError("the container is stopped") }
    return parts
  }

  var catalog: ContainerCatalog { now.catalog }
  var content: ContentFiles { now.content }
  var system: ContainerFileSystem { now.system }

  init() throws {
    var template = Array("/tmp/model-tests-XXXXXX".utf8CString)
    guard mkdtemp(&template) != nil else { throw Errno(rawValue: errno) }
    directory = template.withUnsafeBufferPointer { String(cString: $0.baseAddress!) }
    parts = Lock(try Parts(directory: directory, clock: clock))
  }

  deinit {
    try? catalog.close()
    parts.withLock { $0 = nil }
    try? Files.removeTree(directory)
  }

  /// A clean stop, and a start.
  func restart() throws {
    system.reset()
    try catalog.close()
    try startAnew()
    guard !catalog.endedUncleanly else { throw ModelFailure("a clean stop was none") }
  }

  /// Lets go of everything as it is, which is what a kill does to it: nothing is written any more.
  func abandon() throws {
    try startAnew()
    guard catalog.endedUncleanly else { throw ModelFailure("a kill was taken for a clean stop") }
  }

  private func startAnew() throws {
    parts.withLock { $0 = nil }
    let started = try Parts(directory: directory, clock: clock)
    parts.withLock { $0 = started }
  }

  /// What fsck finds after a clean stop and a start, and content files that the start had to sweep:
  /// no thread of the former catalog unlinks any more then.
  func problems() throws -> [String] {
    system.reset()
    try catalog.close()
    let left = try content.keys()
    try startAnew()
    let content = content
    let keys = try content.keys()
    let found = try catalog.check(contentKeys: keys) { key in
      (try? content.found(key))?.size
    }
    return found.map(\.description)
      + left.filter { !keys.contains($0) }.map { "\($0) was left behind" }
  }
}

struct ModelFailure: Error, CustomStringConvertible {
  let description: String
  init(_ description: String) { self.description = description }
}
