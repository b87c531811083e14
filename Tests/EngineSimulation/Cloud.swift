import Backend

/// What all devices share: the objects, with when and by whom each was stored.
final class Cloud: @unchecked Sendable {
  // Unchecked: the simulation has one thread.
  struct Object {
    let bytes: [UInt8]
    let time: Int64

    func bytes(_ range: Range<UInt64>?) -> [UInt8] {
      guard let range else { return bytes }
      let end = min(range.upperBound, UInt64(bytes.count))
      return Array(bytes[Int(min(range.lowerBound, end))..<Int(end)])
    }
  }

  private(set) var objects: [String: Object] = [:]
  /// The segments of the log that were removed, for the simulation alone: as they were first put.
  private(set) var removedLog: [String: Object] = [:]
  /// Every name, in the order of lists.
  private var names: [String] = []
  /// Packs that devices removed since somebody asked.
  private var removedPacks: [String] = []
  /// Some objects are hidden: what a device puts now and removes again was never part of the log.
  private(set) var isIncomplete = false
  /// Objects that no device puts any more and that came back.
  private(set) var repeatedObjects = 0
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

  /// A network delivers a put once more, perhaps when the device that sent it has ended.
  func repeatPut(_ key: String, _ bytes: [UInt8]) {
    // A store that does not show its objects holds them nevertheless, and refuses others.
    guard !isIncomplete, putIfAbsent(key, bytes) else { return }
    repeatedObjects += 1
    scheduler.note("the network repeats a put of \(key)")
  }

  func store(_ key: String, _ bytes: [UInt8]) {
    if objects.updateValue(Object(bytes: bytes, time: scheduler.now), forKey: key) == nil {
      names.insert(key, at: place(of: key))
    }
    tell(key)
  }

  func takeRemovedPacks() -> [String] {
    defer { removedPacks = [] }
    return removedPacks
  }

  func delete(_ key: String) {
    if let object = objects.removeValue(forKey: key) {
      names.remove(at: place(of: key))
      if StoreKey.isPack(key) { removedPacks.append(key) }
      if key.contains("/log/"), removedLog[key] == nil, !isIncomplete { removedLog[key] = object }
    }
    tell(key)
  }

  /// Takes objects away as if they had never been; gives them for `show`.
  func hide(_ isHidden: (String) -> Bool) -> [String: Object] {
    let hidden = objects.filter { isHidden($0.key) }
    isIncomplete = true
    for key in hidden.keys.sorted() {
      objects[key] = nil
      names.remove(at: place(of: key))
    }
    return hidden
  }

  /// Brings them back, unless another object has the name now.
  func show(_ hidden: [String: Object]) {
    isIncomplete = false
    for (key, object) in hidden.sorted(by: { $0.key < $1.key }) where objects[key] == nil {
      objects[key] = object
      names.insert(key, at: place(of: key))
      tell(key)
    }
  }

  /// The first name that does not come before `key`.
  private func place(of key: String) -> Int {
    var low = 0
    var high = names.count
    while low < high {
      let middle = (low + high) / 2
      if keyPrecedes(names[middle], key) { low = middle + 1 } else { high = middle }
    }
    return low
  }

  /// Names below `root`, without it.
  func list(
    _ root: String, _ prefix: String, after: String?, limit: Int, _ isShown: (Object) -> Bool
  ) -> [String] {
    let start = root + prefix
    var index = place(of: start)
    if let after { index = max(index, place(of: root + after)) }
    var result: [String] = []
    while index < names.count, result.count < limit, names[index].hasPrefix(start) {
      let name = names[index]
      index += 1
      if let after, !keyPrecedes(root + after, name) { continue }
      if let object = objects[name], isShown(object) {
        result.append(String(name.dropFirst(root.count)))
      }
    }
    return result
  }

  /// All objects are those of an earlier moment.
  func restore(_ copy: [String: Object]) {
    let changed = Set(objects.keys).symmetricDifference(copy.keys)
    objects = copy
    names = copy.keys.sorted(by: keyPrecedes)
    for key in changed.sorted() where key.contains("/log/") { tell(key) }
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
  /// Calls that come twice, the second time late.
  var repeats = 0

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
    result.repeats = random.number(0...10)
    return result
  }
}
