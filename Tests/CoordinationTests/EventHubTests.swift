import Coordination
import Model
import Platform
import TestWaiting
import Testing

@Suite struct EventHubTests {
  private static let container = try! ContainerID("iCloud.com.example.test")

  private func event(_ path: String, from old: String? = nil) throws -> ItemEvent {
    func names(_ text: String) throws -> [ItemName] {
      try text.split(separator: "/").map { try ItemName(String($0)) }
    }
    return ItemEvent(
      time: Timestamp(nanoseconds: 1), kind: old == nil ? .changed : .moved,
      container: Self.container, path: try names(path), oldPath: try old.map(names))
  }

  /// Takes events while it is open.
  private final class Listener: Sendable {
    private let state = Lock((isOpen: true, events: [ItemEvent]()))

    func take(_ event: ItemEvent) -> Bool {
      state.withLock { state in
        if state.isOpen { state.events.append(event) }
        return state.isOpen
      }
    }

    func setOpen(_ isOpen: Bool) { state.withLock { $0.isOpen = isOpen } }

    var texts: [String] {
      state.withLock { $0.events }.map { event in
        event.kind == .overflow ? "overflow" : event.path.map(\.description).joined(separator: "/")
      }
    }

    func has(_ count: Int) async throws -> [String] {
      try await eventually("the listener has \(count) events") { texts.count >= count }
      return texts
    }
  }

  /// What `status` tells is posted for those who want it alone.
  @Test func statusIsForWhoWantsIt() async throws {
    let hub = EventHub()
    let (plain, curious) = (Listener(), Listener())
    let first = hub.subscribe(to: .everything) { plain.take($0) }
    #expect(hub.isActive && !hub.isStatusActive)
    let second = hub.subscribe(to: .everything, withStatus: true) { curious.take($0) }
    #expect(hub.isStatusActive)
    for id in [first, second] { hub.start(id) }
    for kind in [ItemEvent.Kind.status, .statusBelow, .container, .changed] {
      hub.post(
        ItemEvent(
          time: Timestamp(nanoseconds: 1), kind: kind, container: Self.container,
          path: [try ItemName(kind.rawValue)]))
    }
    #expect(try await curious.has(4) == ["status", "statusBelow", "container", "changed"])
    #expect(try await plain.has(1) == ["changed"])
    hub.unsubscribe(second)
    #expect(hub.isActive && !hub.isStatusActive)
    hub.unsubscribe(first)
    #expect(!hub.isActive)
  }

  @Test func eventsComeInOrderToAllWhoListen() async throws {
    let hub = EventHub()
    #expect(!hub.isActive)
    hub.post(try event("nobody"))
    let listeners = [Listener(), Listener()]
    let ids = listeners.map { listener in
      hub.subscribe(to: .everything) { listener.take($0) }
    }
    #expect(hub.isActive)
    hub.post(try event("early"))
    for id in ids { hub.start(id) }
    for index in 0..<100 { hub.post(try event("e\(index)")) }
    let expected = ["early"] + (0..<100).map { "e\($0)" }
    for listener in listeners { #expect(try await listener.has(101) == expected) }
    for id in ids { hub.unsubscribe(id) }
    #expect(!hub.isActive)
    // The thread may have gone; the next one that listens gets one.
    let late = Listener()
    hub.start(hub.subscribe(to: .everything) { late.take($0) })
    hub.post(try event("late"))
    #expect(try await late.has(1) == ["late"])
  }

  @Test func whoIsTooSlowIsToldSoAndGoesOn() async throws {
    let hub = EventHub(capacity: 10)
    let (slow, quick) = (Listener(), Listener())
    slow.setOpen(false)
    for listener in [slow, quick] {
      hub.start(hub.subscribe(to: .everything) { listener.take($0) })
    }
    for index in 0..<30 {
      hub.post(try event("e\(index)"))
      _ = try await quick.has(index + 1)
    }
    #expect(quick.texts == (0..<30).map { "e\($0)" })
    slow.setOpen(true)
    let expected = (0..<10).map { "e\($0)" } + ["overflow"]
    #expect(try await slow.has(11) == expected)
    hub.post(try event("after"))
    #expect(try await slow.has(12) == expected + ["after"])
  }

  @Test func aScopeHasWhatIsAtOrBelowAPath() async throws {
    let hub = EventHub()
    let listener = Listener()
    let scope = EventScope(container: Self.container, path: [try ItemName("d")])
    hub.start(hub.subscribe(to: scope) { listener.take($0) })
    let other = EventScope(
      container: try ContainerID("iCloud.com.example.other"), path: [])
    hub.start(
      hub.subscribe(to: other) { _ in
        Issue.record("an event of another container")
        return true
      })
    for path in ["a", "d", "d/e/f", "dd", "d/g"] { hub.post(try event(path)) }
    hub.post(try event("x", from: "d/y"))
    hub.post(try event("d/z", from: "q"))
    hub.post(try event("x", from: "y"))
    hub.post(try event("d/end"))
    #expect(try await listener.has(6) == ["d", "d/e/f", "d/g", "x", "d/z", "d/end"])
  }
}
