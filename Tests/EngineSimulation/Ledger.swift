import Model

/// What the devices of an account wrote, and what became of it.
///
/// A content is known by its manifest, which names its bytes: so it is known too where there is
/// only a placeholder. No two contents are the same, since each has a number of its own in its
/// bytes.
final class Ledger {
  /// Hashes of all bytes that a file ever had after a call of a program.
  private(set) var contents: Set<Int> = []
  /// The file was closed without an error: from here on its content must not be lost.
  private(set) var acknowledged: [Manifest: String] = [:]
  /// A device that showed it wrote over it or removed it.
  private var superseded: Set<Manifest> = []
  /// Contents of files in the midst of a change that their program went on with.
  private(set) var halfDone: Set<Manifest> = []
  /// Contents of files that their programs kept open, and paused with.
  private(set) var paused: Set<Manifest> = []
  private var unsent: Set<VersionID> = []
  /// The same contents by writer and size, for those whose bytes never get into the log.
  private var unsentContents: Set<UnsentContent> = []
  /// A device that showed it removed it, with its file or as a version: it goes to the trash if the
  /// log ever had it.
  private(set) var discarded: Set<Manifest> = []
  private var unsentDiscarded: Set<VersionID> = []
  /// Contents that a record of the log named and that could be read.
  private(set) var logged: Set<Manifest> = []
  /// Items that somebody brought back from the trash.
  private(set) var restored: Set<ItemID> = []
  /// Items that somebody gave a hard link.
  private(set) var linked: Set<ItemID> = []
  private var removed: Set<ItemID> = []
  private var losesAttributes = false
  /// All that attributes were ever given: a directory that is made on two devices at once becomes
  /// one item, with what both had.
  private(set) var values: Set<[UInt8]> = []
  private(set) var attributes: [AttributeKey: Values] = [:]
  private var number: UInt64 = 0
  private var random: SeededGenerator

  struct AttributeKey: Hashable, Comparable {
    let item: ItemID
    let name: String

    static func < (left: Self, right: Self) -> Bool {
      left.item == right.item ? left.name < right.name : left.item < right.item
    }
  }

  private struct UnsentContent: Hashable {
    let writer: String
    let size: UInt64
  }

  struct Values {
    var set: Set<[UInt8]> = []
    /// Somebody took it away, or the item with it: it may be missing.
    var mayBeMissing = false
  }

  init(seed: UInt64) { random = SeededGenerator(seed: seed, stream: 2) }

  // MARK: Contents

  /// Mostly short; now and then of several chunks.
  func length(moreThan least: Int = 0) -> Int {
    let range =
      switch random.number(0...199) {
      case 0..<190: 1...3000
      case 190..<199: 3000...60_000
      default: 400_000...1_500_000
      }
    return least + random.number(range)
  }

  /// Bytes that no other content has: they begin with a number of their own.
  func bytes(count: Int) -> [UInt8] {
    number += 1
    var result: [UInt8] = []
    result.reserveCapacity(count + 8)
    withUnsafeBytes(of: number.bigEndian) { result += $0 }
    while result.count < count {
      withUnsafeBytes(of: random.next()) { result += $0 }
    }
    // Of one that is too short for its number the end has to be enough.
    return Array(result.count > count && count < 8 ? result.suffix(count) : result.prefix(count))
  }

  func register(_ bytes: [UInt8]) { contents.insert(Self.hash(bytes)) }

  func knows(_ bytes: [UInt8]) -> Bool { bytes.isEmpty || contents.contains(Self.hash(bytes)) }

  private static func hash(_ bytes: [UInt8]) -> Int {
    var hasher = Hasher()
    bytes.withUnsafeBytes { hasher.combine(bytes: $0) }
    return hasher.finalize()
  }

  /// For people.
  static func name(of content: Manifest) -> String {
    "\(content.size) bytes \(content.chunks.first.map { Hex.encode($0.id.bytes.prefix(4)) } ?? "-")"
  }

  func acknowledge(_ content: Manifest, by device: String) {
    if content != .empty, !excused.contains(device) { acknowledged[content] = device }
  }

  /// What a device wrote after it was removed: no other device may ever show it.
  private(set) var forbidden: Set<Manifest> = []

  func forbid(_ content: Manifest) { if content != .empty { forbidden.insert(content) } }

  /// Devices that are being removed: what they write may be on no other.
  private var excused: Set<String> = []

  func excuse(_ device: String) {
    excused.insert(device)
    for (content, writer) in acknowledged where writer == device { supersede(content) }
    // Nor may the others have its attributes, or know what became of a package that it touched.
    losesAttributes = true
  }

  func setHalfDone(_ content: Manifest) { halfDone.insert(content) }

  func pause(_ content: Manifest) { paused.insert(content) }

  func supersede(_ content: Manifest) { superseded.insert(content) }

  /// One that was announced and not sent yet: whose bytes it has is known later.
  func supersede(_ version: ContentVersion, writer: String?) {
    if let content = version.manifest { return supersede(content) }
    unsent.insert(version.id)
    if let writer { unsentContents.insert(UnsentContent(writer: writer, size: version.size)) }
  }

  /// Whether a device that showed the content, or its placeholder, wrote over it.
  func isSuperseded(_ content: Manifest) -> Bool {
    if superseded.contains(content) { return true }
    guard let writer = acknowledged[content] else { return false }
    return unsentContents.contains(UnsentContent(writer: writer, size: content.size))
  }

  func discard(_ content: Manifest) { discarded.insert(content) }

  func discard(_ version: ContentVersion) {
    if let content = version.manifest {
      discard(content)
    } else {
      unsentDiscarded.insert(version.id)
    }
  }

  func restore(_ items: some Sequence<ItemID>) { restored.formUnion(items) }

  func link(_ item: ItemID) { linked.insert(item) }

  /// The log names this content: a version turned out to be it.
  func learn(_ version: VersionID, _ content: Manifest) {
    logged.insert(content)
    if unsent.contains(version) { supersede(content) }
    if unsentDiscarded.contains(version) { discard(content) }
  }

  // MARK: Attributes

  func setAttribute(_ key: AttributeKey, _ value: [UInt8]) {
    attributes[key, default: Values()].set.insert(value)
    values.insert(value)
  }

  func removeAttribute(_ key: AttributeKey) {
    attributes[key, default: Values()].mayBeMissing = true
  }

  /// Who removes an item does away with what it has, and with what others give it who do not know
  /// yet: only a content that they write brings it back, as they have it.
  func removeAttributes(of item: ItemID) { removed.insert(item) }

  /// A version of a package goes, with whatever its files had: nobody takes apart what that was.
  func removePackageVersion() { losesAttributes = true }

  func mayMiss(_ key: AttributeKey) -> Bool {
    losesAttributes || removed.contains(key.item) || attributes[key]?.mayBeMissing ?? true
  }
}
