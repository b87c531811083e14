import Backend
import Glibc
import Model
import Platform
import RemoteStore
import Testing

/// An account with one container in a memory store.
struct Fixture {
  let store: MemoryStore
  let meter: MeteredStore
  let account: RemoteAccount
  let container: RemoteContainer
  static let device = DeviceID(high: 0xD, low: 1)
  static let origin = LogOrigin(device: device, time: Timestamp(nanoseconds: 7))
  /// A generated one: deriving a key from a passphrase is slow on purpose.
  static let secret = "ubq1-aaaaa-aaaaa-aaaaa-aaaaa-aaaaa-aaaaa-aa37y-tdxyl"

  init() async throws {
    store = MemoryStore()
    meter = MeteredStore(store)
    account = try await RemoteAccount.open(
      store: meter, secret: AccountSecret(Self.secret), createIfMissing: true)
    container = try await account.createContainer(
      Self.containerID(), device: Self.device, time: Timestamp(nanoseconds: 7))
  }

  static func containerID(_ name: String = "iCloud.com.example.notes") throws -> ContainerID {
    try ContainerID(name)
  }

  /// The position after the segment that every container starts with.
  func head() async throws -> LogPosition {
    var position = LogPosition.start
    while true {
      let segments = try await container.segments(after: position)
      guard let last = segments.last else { return position }
      position = last.position
    }
  }

  func keys(_ prefix: String = "") async throws -> [String] {
    try await store.list(prefix: prefix, after: nil, limit: 10_000)
  }

  func segmentKey(_ sequence: Int) -> String {
    let digits = String(sequence)
    return "containers/\(container.incarnation)/log/"
      + String(repeating: "0", count: 20 - digits.count) + digits
  }

  /// A directory's record, for something to put into the log.
  static func directory(_ name: String, low: UInt64) throws -> ItemRecord {
    ItemRecord(
      id: ItemID(high: 9, low: low), kind: .directory,
      links: [Link(parent: .documents, name: try ItemName(name))], mode: 0o755,
      modified: Timestamp(nanoseconds: 1), created: Timestamp(nanoseconds: 2))
  }

  static func changes(_ name: String, low: UInt64 = 100) throws -> LogChanges {
    LogChanges(upserts: [try directory(name, low: low)])
  }
}

/// A file without a name.
func temporaryFile(_ bytes: [UInt8]) throws -> OpenFile {
  let base = getenv("TMPDIR").map { String(cString: $0) } ?? "/tmp"
  let path = "\(base)/ubiquityfs-test-\(getpid())-\(UInt64.random(in: 0...UInt64.max))"
  let file = try OpenFile.open(path, flags: O_RDWR | O_CREAT | O_EXCL)
  try Files.remove(path)
  try file.write(bytes, at: 0)
  return file
}

/// Bytes that do not compress, the same for the same seed.
func noise(_ count: Int, seed: UInt64) -> [UInt8] {
  var generator = SplitMix(state: seed)
  return [UInt8](unsafeUninitializedCapacity: count) { buffer, filled in
    var index = 0
    while index < count {
      var word = generator.next()
      for _ in 0..<min(8, count - index) {
        buffer.initializeElement(at: index, to: UInt8(truncatingIfNeeded: word))
        word >>= 8
        index += 1
      }
    }
    filled = count
  }
}

/// Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014.
struct SplitMix: RandomNumberGenerator {
  var state: UInt64

  mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var word = state
    word = (word ^ word >> 30) &* 0xBF58_476D_1CE4_E5B9
    word = (word ^ word >> 27) &* 0x94D0_49BB_1331_11EB
    return word ^ word >> 31
  }
}

extension MemoryStore {
  /// All objects by key.
  func objects() async throws -> [String: [UInt8]] {
    var result: [String: [UInt8]] = [:]
    for key in try await list(prefix: "", after: nil, limit: .max) {
      result[key] = try await get(key)
    }
    return result
  }
}
