internal import Catalog
internal import Model
internal import Platform
internal import SystemPackage

/// The version that an open in the hidden directory is of.
struct RecordedVersion {
  let inode: InodeNumber
  let id: VersionID
}

/// An open of a file, as the kernel has it.
struct RecordedOpen {
  var handle: UInt64
  /// The request that was answered with it.
  var request: UInt64
  var number: InodeNumber
  var canRead = false
  var canWrite = false
  /// As of `OpenFileHandle`.
  var needsFlush = false
  /// As of `OpenResult`.
  var tellsFlush = false
  var asks = false
  /// Of an open that the kernel serves: the number of the file. The kernel keeps the file as long
  /// as the connection, and fails an open of the inode with another number.
  var backing: Int32?
  var process: Int32 = 0
  /// Of an open in the hidden directory, of which `number` is the node. It has no backing file.
  var version: RecordedVersion?
}

/// The opens of a mount in its record. A slot has the number of its open, which is written last and
/// taken away first; 0 for a slot that is free. The lock is a leaf.
final class OpenSlots: Sendable {
  private struct State {
    var free: [Int] = []
    var used: Int
  }

  private static let size = 64
  private static let limit =
    (MountRecord.Place.knownInodes - MountRecord.Place.openFiles) / OpenSlots.size

  private let memory: SharedMemory
  private let state: Lock<State>

  init(_ memory: SharedMemory) {
    self.memory = memory
    let used = Int(min(memory.word(at: MountRecord.Place.openings), UInt64(Self.limit)))
    var free: [Int] = []
    for slot in 0..<used where memory.word(at: Self.place(slot)) == 0 { free.append(slot) }
    state = Lock(State(free: free, used: used))
  }

  private static func place(_ slot: Int) -> Int { MountRecord.Place.openFiles + slot * size }

  /// ENFILE when there are too many.
  func add(_ open: RecordedOpen) throws(Errno) -> Int {
    let slot = state.withLock { state -> Int? in
      if let slot = state.free.popLast() { return slot }
      guard state.used < Self.limit else { return nil }
      state.used += 1
      memory.store(UInt64(state.used), at: MountRecord.Place.openings)
      return state.used - 1
    }
    guard let slot else { throw .tooManyOpenFilesInSystem }
    let place = Self.place(slot)
    memory.store(open.request, at: place + 8)
    memory.store(open.number.rawValue, at: place + 16)
    memory.store(Self.flags(of: open), at: place + 24)
    memory.store(UInt64(UInt32(bitPattern: open.backing ?? 0)), at: place + 32)
    memory.store(UInt64(UInt32(bitPattern: open.process)), at: place + 40)
    if let version = open.version {
      memory.store(version.inode.rawValue, at: place + 32)
      memory.store(version.id.high, at: place + 48)
      memory.store(version.id.low, at: place + 56)
    }
    memory.store(open.handle, at: place)
    return slot
  }

  func remove(_ slot: Int) {
    memory.store(0, at: Self.place(slot))
    state.withLock { $0.free.append(slot) }
  }

  /// All opens with their slots.
  func all() -> [(slot: Int, open: RecordedOpen)] {
    let used = state.withLock { $0.used }
    return (0..<used).compactMap { slot in
      let place = Self.place(slot)
      let handle = memory.word(at: place)
      guard handle != 0 else { return nil }
      let flags = memory.word(at: place + 24)
      func has(_ bit: UInt64) -> Bool { flags & 1 << bit != 0 }
      let backing = Int32(truncatingIfNeeded: memory.word(at: place + 32))
      if has(5) {
        let id = VersionID(high: memory.word(at: place + 48), low: memory.word(at: place + 56))
        let version = RecordedVersion(inode: InodeNumber(memory.word(at: place + 32)), id: id)
        return (
          slot,
          RecordedOpen(
            handle: handle, request: memory.word(at: place + 8),
            number: InodeNumber(memory.word(at: place + 16)), canRead: true, version: version)
        )
      }
      let open = RecordedOpen(
        handle: handle, request: memory.word(at: place + 8),
        number: InodeNumber(memory.word(at: place + 16)), canRead: has(0), canWrite: has(1),
        needsFlush: has(2), tellsFlush: has(3), asks: has(4), backing: backing > 0 ? backing : nil,
        process: Int32(truncatingIfNeeded: memory.word(at: place + 40)))
      return (slot, open)
    }
  }

  private static func flags(of open: RecordedOpen) -> UInt64 {
    let bits = [
      open.canRead, open.canWrite, open.needsFlush, open.tellsFlush, open.asks,
      open.version != nil,
    ]
    return bits.enumerated().reduce(0) { $0 | ($1.element ? 1 << UInt64($1.offset) : 0) }
  }
}
