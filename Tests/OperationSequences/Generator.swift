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
  /// Where something may be: what was made, whether it worked or not.
  private var likely: [[Name]] = [[]]

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

  /// A name in a directory, which may be there or not.
  private mutating func place() -> Path {
    if chance(1, in: 12) { return Path(slot: slot(), [name()]) }
    var names = chance(3, in: 5) ? pick(likely) : []
    if names.count > 3 { names.removeLast() }
    if names.isEmpty || chance(1, in: 2) { names.append(name()) }
    return Path(names)
  }

  private mutating func newPlace() -> Path {
    let path = place()
    if path.slot == nil {
      if likely.count > 12 { likely.remove(at: 1) }
      likely.append(path.names)
    }
    return path
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
    if chance(3, in: 5) { flags.insert(.create) }
    if flags.contains(.create), chance(1, in: 3) { flags.insert(.exclusive) }
    if flags.contains(.write), chance(1, in: 6) { flags.insert(.truncate) }
    if flags.contains(.write), chance(1, in: 10) { flags.insert(.append) }
    return flags
  }

  package mutating func step() -> Action {
    Action(user: chance(1, in: 5) ? .other : .root, operation())
  }

  private mutating func operation() -> Operation {
    switch Int.random(in: 0..<100, using: &random) {
    case 0..<14: .open(slot: slot(), newPlace(), openFlags(), mode: pick(Self.modes))
    case 14..<18: .close(slot: slot())
    case 18..<20: .makeNode(newPlace(), pick(NodeKind.makeable), mode: pick(Self.modes))
    case 20..<26: .makeDirectory(newPlace(), mode: pick(Self.modes))
    case 26..<28: .makeSymbolicLink(target: pick(Self.targets), newPlace())
    case 28..<31: .link(place(), newPlace())
    case 31..<35: .unlink(place())
    case 35..<38: .removeDirectory(place())
    case 38..<46:
      .rename(place(), newPlace(), pick([.replace, .replace, .replace, .noReplace, .exchange]))
    case 46..<67: contentOperation()
    case 67..<83: attributeOperation()
    default: question()
    }
  }

  private mutating func contentOperation() -> Operation {
    switch Int.random(in: 0..<21, using: &random) {
    case 0..<7:
      .write(
        slot: slot(), offset: offset(), count: pick(Self.counts),
        fill: UInt8.random(in: 1...255, using: &random))
    case 7..<11: .read(slot: slot(), offset: offset(), count: pick(Self.counts))
    case 11..<13: .truncateOpen(slot: slot(), size: offset())
    case 13: .truncate(place(), size: offset())
    case 14, 15:
      .allocate(
        slot: slot(), pick(AllocateMode.allCases), offset: offset(),
        length: pick([0, 1, 4096, 5000, 8192]))
    case 16: .seekData(slot: slot(), offset: offset())
    case 17: .seekHole(slot: slot(), offset: offset())
    case 18, 19:
      .copyRange(
        from: slot(), at: offset(), to: slot(), newOffset: offset(), count: pick(Self.counts))
    default: .synchronize(slot: slot())
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
    case 5..<8: .statusOpen(slot: slot())
    case 8: .fileSystemStatus(item())
    case 9: .readLink(place())
    case 10..<12: .list(item())
    case 12..<16: .listSome(slot: slot(), count: Int.random(in: 1...4, using: &random))
    default: .seekListing(slot: slot(), quarters: Int.random(in: 0...4, using: &random))
    }
  }
}

extension NodeKind {
  /// By mknod(2).
  package static let makeable: [NodeKind] = [
    .file, .fifo, .fifo, .socket, .characterDevice, .blockDevice,
  ]
}
