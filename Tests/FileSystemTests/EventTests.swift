import Catalog
import Coordination
import FileSystem
import Model
import Platform
import TestWaiting
import Testing

/// What is told of operations through the mount.
@Suite struct EventTests {
  let container: Container
  init() throws { container = try Container() }

  private final class Heard: Sendable {
    let events = Lock<[ItemEvent]>([])
  }

  /// What `body` does, as `created a` or `moved b from a`.
  private func told(_ body: () throws -> Void) async throws -> [String] {
    let hub = container.coordinator.events
    let heard = Heard()
    let id = hub.subscribe(to: .everything) { event in
      heard.events.withLock { $0.append(event) }
      return true
    }
    hub.start(id)
    try body()
    hub.post(
      ItemEvent(
        time: Timestamp(nanoseconds: 0), kind: .overflow,
        container: container.coordinator.container, path: []))
    try await eventually("the last event is heard") {
      heard.events.withLock { $0.last?.kind } == .overflow
    }
    hub.unsubscribe(id)
    func text(_ path: [ItemName]) -> String { path.map(\.description).joined(separator: "/") }
    return heard.events.withLock { $0.dropLast() }.map { event in
      #expect(event.origin == .local)
      return "\(event.kind) \(text(event.path))" + (event.oldPath.map { " from \(text($0))" } ?? "")
    }
  }

  private func rename(_ old: String, _ new: String, _ mode: RenameMode = .replace) throws {
    try container.system.rename(
      container.name(old), in: .root, to: container.name(new), in: .root, mode: mode)
  }

  @Test func namesAreToldAsTheyComeAndGo() async throws {
    let texts = try await told {
      let directory = try container.make(.directory, "d")
      let file = try container.make(.file, "f", in: directory)
      _ = try container.system.link(file, as: container.name("g"), in: .root)
      try rename("g", "h")
      try rename("h", "d", .exchange)
      try container.system.remove(container.name("d"), in: .root, directory: false)
      try container.system.remove(container.name("f"), in: directory, directory: false)
      try container.system.remove(container.name("h"), in: .root, directory: true)
    }
    #expect(
      texts == [
        "created d", "created d/f", "created g", "moved h from g", "moved d from h",
        "moved h from d", "removed d", "removed h/f", "removed h",
      ])
  }

  @Test func aChangeIsToldWhenTheLastWriterIsGone() async throws {
    let texts = try await told {
      let (number, handle) = try container.create("f", "text")
      let other = try container.system.open(
        number, OpenMode(canWrite: true), caller: Container.caller)
      container.system.release(handle)
      container.system.release(other.handle)
      // One that only could have written.
      let idle = try container.system.open(
        number, OpenMode(canWrite: true), caller: Container.caller)
      container.system.release(idle.handle)
      _ = try container.system.setStatus(
        number, StatusChanges(size: 0), caller: Container.caller)
    }
    #expect(texts == ["created f", "changed f", "changed f"])
  }

  @Test func attributesAreToldWhereTheyAreTheUsers() async throws {
    let number = try container.make(.file, "f")
    let system = container.system
    let texts = try await told {
      _ = try system.setStatus(number, StatusChanges(mode: 0o600), caller: Container.caller)
      try system.setAttribute(
        container.name("user.a"), [1], mode: .createOrReplace, of: number)
      try system.setAttribute(
        container.name("user.a"), [1], mode: .createOrReplace, of: number)
      try system.removeAttribute(container.name("user.a"), of: number)
      try system.setAttribute(
        container.name("trusted.a"), [1], mode: .createOrReplace, of: number)
      _ = try system.status(number)
    }
    #expect(texts == ["attributes f", "attributes f", "attributes f"])
  }

  @Test func whatFailsIsNotTold() async throws {
    let texts = try await told {
      #expect(throws: (any Error).self) { try rename("a", "b") }
      #expect(throws: (any Error).self) {
        try container.system.remove(container.name("a"), in: .root, directory: false)
      }
      #expect(throws: (any Error).self) { try container.make(.directory, "Documents") }
    }
    #expect(texts.isEmpty)
  }
}
