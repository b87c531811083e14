internal import Glibc
internal import OperationSequences

/// A sequence on both directories, call by call.
///
/// What is not compared, and why:
/// - inode numbers, the size of a directory, the order of a listing: each file system's own;
/// - a time that the clock set: whether a call changed it is compared instead;
/// - names in a listing while the directory changes: each side is held to readdir(3p) by itself.
/// - where the holes are in space that was allocated and not written: ext4 answers by which pages
///   its cache happens to hold. Where the two differ, neither may pass over data (lseek(2));
/// - a seek in a directory that was removed, which has nothing to list: not made;
/// - chown(2) that names neither user nor group, by one who does not own the file, of a set-user-ID
///   file that is open for writing: what the kernel asks is what it asks before a write, so that it
///   cannot be refused. Such a call is made by root while anything is open. Nothing else is left
///   out. The native directory is to be mounted `nosuid,nodev,noatime`, as a mount is for those who
///   use it.
final class Comparison {
  private let native: Side
  private let mounted: Side
  private let trace: Bool
  /// Leaves nothing of a sequence that went well.
  private let removes: Bool
  private var listings: [Int: (native: SideListing, mounted: SideListing)] = [:]

  init(native: Side, mounted: Side, trace: Bool, removes: Bool) {
    self.native = native
    self.mounted = mounted
    self.trace = trace
    self.removes = removes
  }

  /// Nil when both did the same.
  func run(_ actions: [Action], in directory: String) throws -> String? {
    try native.begin(directory, makes: true)
    try mounted.begin(directory, makes: true)
    defer {
      native.end()
      mounted.end()
      listings = [:]
    }
    for (index, action) in actions.enumerated() {
      if let problem = try run(action) { return "call \(index), \(action): \(problem)" }
    }
    if let problem = try TreeComparison(native, mounted).compare() { return problem }
    if removes {
      try native.removeAll()
      try mounted.removeAll()
    }
    return nil
  }

  /// What is there from an earlier run.
  func compare(_ directory: String) throws -> String? {
    try native.begin(directory, makes: false)
    try mounted.begin(directory, makes: false)
    defer {
      native.end()
      mounted.end()
    }
    return try TreeComparison(native, mounted).compare()
  }

  private func run(_ action: Action) throws -> String? {
    var action = action
    if case .changeOwner(_, nil, nil) = action.operation, !native.slots.isEmpty {
      action.user = .root
    }
    let before = (native.observe(action.operation), mounted.observe(action.operation))
    let expected = native.run(action)
    let actual = mounted.run(action)
    if trace { print("\(action): \(actual)" + (actual == expected ? "" : ", native \(expected)")) }
    if let problem = compare(action.operation, actual, expected) { return problem }
    let after = (native.observe(action.operation), mounted.observe(action.operation))
    for index in before.0.indices {
      let expected = Changes(before.0[index], after.0[index])
      let actual = Changes(before.1[index], after.1[index])
      guard expected == actual else {
        return "changed \(actual), native \(expected), of item \(index) of "
          + "\(action.operation.observed)"
      }
    }
    updateListings(action.operation)
    return nil
  }

  private func compare(_ operation: Operation, _ actual: Outcome, _ expected: Outcome) -> String? {
    if case .listSome(let slot, let count) = operation, case .names(let names) = actual,
      case .names(let nativeNames) = expected
    {
      if let problem = listings[slot]?.native.check(nativeNames, isEnd: nativeNames.count < count) {
        return "native \(problem)"
      }
      return listings[slot]?.mounted.check(names, isEnd: names.count < count)
    }
    if actual != expected, let (slot, seek) = operation.holeSeek {
      if let contents = native.contents(ofSlot: slot),
        let problem = seek.check(expected, of: contents)
      {
        return "native \(problem)"
      }
      if let contents = mounted.contents(ofSlot: slot) { return seek.check(actual, of: contents) }
    }
    return actual == expected ? nil : "gave \(actual), native \(expected)"
  }

  private func updateListings(_ operation: Operation) {
    for slot in Set(listings.keys).union(native.slots.keys) {
      guard let before = native.entries(ofSlot: slot), let now = mounted.entries(ofSlot: slot)
      else {
        listings[slot] = nil
        continue
      }
      if case .open(slot, _, _, _) = operation { listings[slot] = nil }
      var pair = listings[slot] ?? (SideListing(before), SideListing(now))
      pair.native.update(before)
      pair.mounted.update(now)
      if case .seekListing(slot, let quarters) = operation {
        pair.native.seek(quarters)
        pair.mounted.seek(quarters)
      }
      listings[slot] = pair
    }
  }
}

/// A listing in pieces on one side.
struct SideListing {
  private var listing = ReferenceListing()
  private var entries: [Name: UInt64]

  init(_ entries: [Name: UInt64]) {
    self.entries = entries
    listing.rewind(entries.keys)
  }

  mutating func update(_ now: [Name: UInt64]) {
    for name in Set(entries.keys).union(now.keys) where entries[name] != now[name] {
      listing.changed(name, isThere: now[name] != nil)
    }
    entries = now
  }

  mutating func check(_ names: [Name], isEnd: Bool) -> String? {
    listing.check(names, isEnd: isEnd)
  }

  mutating func seek(_ quarters: Int) { listing.seek(quarters: quarters, names: entries.keys) }
}

/// Which times of an item a call changed; nil where it was not there, or is another one.
struct Changes: Equatable, CustomStringConvertible {
  private let times: [Bool]?

  init(_ before: ItemStatus?, _ after: ItemStatus?) {
    guard let before, let after, before.number == after.number else {
      times = nil
      return
    }
    times = [
      before.accessed != after.accessed, before.modified != after.modified,
      before.changed != after.changed,
    ]
  }

  var description: String {
    guard let times else { return "(not the same item)" }
    let names = zip(["atime", "mtime", "ctime"], times).filter(\.1).map(\.0)
    return names.isEmpty ? "nothing" : names.joined(separator: " and ")
  }
}

extension Operation {
  /// Whose times a call may change: what it names, and the directories of that.
  var observed: [Path] { paths.flatMap { [$0, Path(slot: $0.slot, $0.names.dropLast())] } }

  var observedSlots: [Int] {
    switch self {
    case .write(let slot, _, _, _), .read(let slot, _, _), .truncateOpen(let slot, _),
      .allocate(let slot, _, _, _), .seekData(let slot, _), .seekHole(let slot, _),
      .synchronize(let slot), .listSome(let slot, _):
      [slot]
    case .copyRange(let from, _, let to, _, _): [from, to]
    default: []
    }
  }
}

extension Side {
  func observe(_ operation: Operation) -> [ItemStatus?] {
    operation.observed.map { path in
      do {
        try enter(path)
        return try status(path)
      } catch {
        return nil
      }
    } + operation.observedSlots.map { slots[$0].flatMap { try? status(of: $0) } }
  }
}
