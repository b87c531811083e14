/// A generator whose numbers are the seed's alone.
package struct SeededGenerator: RandomNumberGenerator {
  private var state: UInt64

  package init(seed: UInt64) { state = seed }

  package mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var word = state
    word = (word ^ (word >> 30)) &* 0xBF58_476D_1CE4_E5B9
    word = (word ^ (word >> 27)) &* 0x94D0_49BB_1331_11EB
    return word ^ (word >> 31)
  }
}

/// Makes sequences of steps: few names, few slots, small files, so that steps meet each other.
package struct SequenceGenerator {
  package static let slots = 5

  private static let names: [Name] = [
    Name("a"), Name("b"), Name("c"), Name("d"), Name("e.nosync"), Name("a"), Name("b"),
  ]
  private static let oddNames: [Name] = [
    Name([UInt8](repeating: 0x6E, count: 255)), Name([UInt8](repeating: 0x6F, count: 256)),
    Name([0x66, 0xFF]), Name("\u{e9}.nosync.x"), Name("a "), Name("A"),
  ]
  private static let offsets: [UInt64] = [
    0, 0, 1, 100, 4095, 4096, 4097, 8192, 10_000, 12_288, 20_000, 32_768,
  ]
  private static let counts: [Int] = [0, 1, 7, 100, 4096, 4096, 5000, 9000]
  private static let modes: [UInt16] = [
    0o644, 0o600, 0o666, 0o755, 0o777, 0o4755, 0o2755, 0o6711, 0o1777, 0o2770, 0o444, 0o000,
  ]
  private static let attributes = [
    "user.a", "user.b", "user.a", "user.longer-than-the-others", "security.model", "trusted.t",
    "unknown.a", "user.",
  ]
  private static let targets = ["a", "b", "c", "a/b", ".", "missing", "a/../b", "../base/b"]

  private var random: SeededGenerator
  private var sketch = Sketch()

  package init(seed: UInt64) { random = SeededGenerator(seed: seed) }

  package static func steps(seed: UInt64, count: Int) -> [Action] {
    var generator = SequenceGenerator(seed: seed)
    return (0..<count).map { _ in generator.step() }
  }

  private mutating func pick<Element>(_ list: [Element]) -> Element {
    list[Int.random(in: 0..<list.count, using: &random)]
  }

  private mutating func chance(_ part: Int, in whole: Int) -> Bool {
    Int.random(in: 0..<whole, using: &random) < part
  }

  private mutating func name() -> Name { pick(chance(1, in: 14) ? Self.oddNames : Self.names) }

  private mutating func slot() -> Int { Int.random(in: 0..<Self.slots, using: &random) }

  /// A slot that `fits`, mostly.
  private mutating func slot(where fits: (Sketch.Slot) -> Bool) -> Int {
    let fitting = sketch.slots.filter { fits($0.value) }.keys.sorted()
    return fitting.isEmpty || chance(1, in: 12) ? slot() : pick(fitting)
  }

  private mutating func readable() -> Int {
    slot { !$0.isDirectory && $0.flags.contains(.read) }
  }

  private mutating func writable() -> Int {
    slot { !$0.isDirectory && $0.flags.contains(.write) }
  }

  /// From the top, or from an open directory that it is below.
  private mutating func path(_ names: [Name]) -> Path {
    guard chance(1, in: 8) else { return Path(names) }
    let above = sketch.slots.filter { $0.value.isDirectory && names.starts(with: $0.value.names) }
    guard let number = above.keys.sorted().first(where: { above[$0]!.names.count < names.count })
    else { return Path(names) }
    return Path(slot: number, Array(names.dropFirst(above[number]!.names.count)))
  }

  /// What is not there, mostly, in a directory that is.
  private mutating func newPlace() -> Path {
    if chance(1, in: 20) { return Path(slot: slot(), [name()]) }
    var names = pick(sketch.directories)
    if chance(1, in: 20), let item = sketch.items.randomElement(using: &random) {
      names = item.names
    }
    if names.count > 3 { names.removeLast() }
    return path(names + [name()])
  }

  /// What is there, mostly, and `fits`.
  private mutating func place(where fits: (NodeKind) -> Bool = { _ in true }) -> Path {
    let fitting = sketch.items.filter { fits($0.kind) }
    guard !fitting.isEmpty, !chance(1, in: 8) else { return newPlace() }
    return path(pick(fitting).names)
  }

  /// The same, or the top.
  private mutating func item() -> Path { chance(1, in: 12) ? Path([]) : place() }

  private mutating func offset() -> UInt64 { pick(Self.offsets) }

  private mutating func value() -> Run {
    Run(count: pick([0, 1, 10, 200, 400]), byte: UInt8.random(in: 0...255, using: &random))
  }

  private mutating func time() -> TimeChange {
    switch Int.random(in: 0..<6, using: &random) {
    case 0: .omit
    case 1: .now
    default: .at(Int64.random(in: 1...1_400_000_000_999_999_999, using: &random))
    }
  }

  private mutating func openFlags() -> OpenFlags {
    if chance(1, in: 6) { return [.read, .directory] }
    var flags: OpenFlags = pick([[.read], [.write], [.read, .write], [.read, .write]])
    if chance(4, in: 5) { flags.insert(.create) }
    if flags.contains(.create), chance(1, in: 4) { flags.insert(.exclusive) }
    if flags.contains(.write), chance(1, in: 6) { flags.insert(.truncate) }
    if flags.contains(.write), chance(1, in: 10) { flags.insert(.append) }
    return flags
  }

  package mutating func step() -> Action {
    let operation = operation()
    note(operation)
    return Action(user: chance(1, in: 6) ? .other : .root, operation)
  }

  private mutating func note(_ operation: Operation) {
    switch operation {
    case .open(let slot, let path, let flags, _): sketch.open(slot, path, flags)
    case .close(let slot): sketch.close(slot)
    case .makeNode(let path, let kind, _): sketch.add(path, kind)
    case .makeDirectory(let path, _): sketch.add(path, .directory)
    case .makeSymbolicLink(_, let path): sketch.add(path, .symbolicLink)
    case .link(let from, let to):
      if let kind = sketch.resolve(from).flatMap({ sketch.kind($0) }), kind != .directory {
        sketch.add(to, kind)
      }
    case .unlink(let path): sketch.remove(path, isDirectory: false)
    case .removeDirectory(let path): sketch.remove(path, isDirectory: true)
    case .rename(let from, let to, let mode): sketch.rename(from, to, mode)
    default: break
    }
  }

  private mutating func operation() -> Operation {
    switch Int.random(in: 0..<100, using: &random) {
    case 0..<15: open()
    case 15..<17: .close(slot: slot { _ in true })
    case 17..<19: .makeNode(newPlace(), pick(NodeKind.makeable), mode: pick(Self.modes))
    case 19..<25: .makeDirectory(newPlace(), mode: pick(Self.modes))
    case 25..<27: .makeSymbolicLink(target: pick(Self.targets), newPlace())
    case 27..<30: .link(place { $0 != .directory }, newPlace())
    case 30..<34: .unlink(place { $0 != .directory })
    case 34..<37: .removeDirectory(place { $0 == .directory })
    case 37..<46: rename()
    case 46..<67: contentOperation()
    case 67..<82: attributeOperation()
    default: question()
    }
  }

  private mutating func open() -> Operation {
    let flags = openFlags()
    let path: Path
    if flags.contains(.directory) {
      path = chance(1, in: 4) ? Path([]) : place { $0 == .directory }
    } else if flags.contains(.exclusive) || flags.contains(.create) && chance(1, in: 2) {
      path = newPlace()
    } else {
      path = place { $0 == .file }
    }
    return .open(slot: slot(), path, flags, mode: pick(Self.modes))
  }

  private mutating func rename() -> Operation {
    let mode: ReplaceMode = pick([.replace, .replace, .replace, .noReplace, .exchange])
    let isThere = mode == .exchange || mode == .replace && chance(2, in: 5)
    return .rename(place(), isThere ? place() : newPlace(), mode)
  }

  private mutating func contentOperation() -> Operation {
    switch Int.random(in: 0..<21, using: &random) {
    case 0..<7:
      .write(
        slot: writable(), offset: offset(), count: pick(Self.counts),
        fill: UInt8.random(in: 1...255, using: &random))
    case 7..<11: .read(slot: readable(), offset: offset(), count: pick(Self.counts))
    case 11..<13: .truncateOpen(slot: writable(), size: offset())
    case 13: .truncate(place { $0 == .file }, size: offset())
    case 14, 15:
      .allocate(
        slot: writable(), pick(AllocateMode.allCases), offset: offset(),
        length: pick([0, 1, 4096, 5000, 8192]))
    case 16: .seekData(slot: readable(), offset: offset())
    case 17: .seekHole(slot: readable(), offset: offset())
    case 18, 19:
      .copyRange(
        from: readable(), at: offset(), to: writable(), newOffset: offset(),
        count: pick(Self.counts))
    default: .synchronize(slot: slot { _ in true })
    }
  }

  private mutating func attributeOperation() -> Operation {
    switch Int.random(in: 0..<16, using: &random) {
    case 0..<4: .changeMode(item(), pick(Self.modes))
    case 4..<6:
      .changeOwner(item(), user: pick([nil, 0, 1234]), group: pick([nil, 0, 1234, 100]))
    case 6..<9: .changeTimes(item(), accessed: time(), modified: time())
    case 9..<12:
      .setAttribute(
        item(), pick(Self.attributes), value(), pick([.any, .any, .create, .replace]))
    case 12..<14: .getAttribute(item(), pick(Self.attributes))
    case 14: .listAttributes(item())
    default: .removeAttribute(item(), pick(Self.attributes))
    }
  }

  private mutating func question() -> Operation {
    switch Int.random(in: 0..<17, using: &random) {
    case 0..<5: .status(item())
    case 5..<8: .statusOpen(slot: slot { _ in true })
    case 8: .fileSystemStatus(item())
    case 9: .readLink(place { $0 == .symbolicLink })
    case 10..<12: .list(item())
    case 12..<16:
      .listSome(slot: slot(where: \.isDirectory), count: Int.random(in: 1...4, using: &random))
    default:
      .seekListing(
        slot: slot(where: \.isDirectory), quarters: Int.random(in: 0...4, using: &random))
    }
  }
}

extension NodeKind {
  /// By mknod(2).
  package static let makeable: [NodeKind] = [
    .file, .fifo, .fifo, .socket, .characterDevice, .blockDevice,
  ]
}
