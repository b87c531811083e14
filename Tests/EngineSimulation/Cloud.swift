import Backend

/// What all devices share: the objects, with when and by whom each was stored.
final class Cloud: @unchecked Sendable {
  // Unchecked: the simulation has one thread.
  struct Object {
    let bytes: [UInt8]
    let time: Int64
  }

  private(set) var objects: [String: Object] = [:]
  private var listeners: [Int: (String) -> Void] = [:]
  private let scheduler: Scheduler
  var bug: PlantedBug?

  init(_ scheduler: Scheduler) { self.scheduler = scheduler }

  func listen(_ owner: Int, _ listener: @escaping (String) -> Void) { listeners[owner] = listener }

  func forget(_ owner: Int) { listeners[owner] = nil }

  func putIfAbsent(_ key: String, _ bytes: [UInt8]) -> Bool {
    if bug == .losesPacks, key.contains("/packs/"), objects.count % 7 == 3 { return true }
    guard objects[key] == nil || (bug == .overwritesSegments && key.contains("/log/")) else {
      return false
    }
    store(key, bytes)
    return true
  }

  func store(_ key: String, _ bytes: [UInt8]) {
    objects[key] = Object(bytes: bytes, time: scheduler.now)
    tell(key)
  }

  func delete(_ key: String) {
    objects[key] = nil
    tell(key)
  }

  private func tell(_ key: String) {
    for owner in listeners.keys.sorted() { listeners[owner]?(key) }
  }
}

/// How bad a device's way to the cloud is.
struct Weather {
  /// In percent of the calls.
  var failsBefore = 0
  var losesAnswers = 0
  var isStale = 0
  var losesNews = 0
  var longestDelay: Int64 = 50_000_000
  /// In percent, and then it takes minutes.
  var stalls = 0
  var isDown = false

  static let fair = Weather()

  static func random(_ random: inout SeededGenerator) -> Weather {
    guard random.chance(70) else { return .fair }
    var result = Weather()
    result.failsBefore = random.number(0...20)
    result.losesAnswers = random.number(0...20)
    result.isStale = random.number(0...30)
    result.losesNews = random.number(0...80)
    result.longestDelay = Int64(random.number(1...2000)) * 1_000_000
    result.stalls = random.number(0...2)
    result.isDown = random.chance(10)
    return result
  }
}
