package import Catalog
package import Platform
package import SystemPackage

/// What the kernel knows of a mount, in memory that outlives the daemon: what the next daemon needs
/// to go on with the mount. Everything is written before the kernel has the answer that it is
/// about.
///
/// The parts, in this order: words; a text of `MountDriver`'s; requests that were done; opens; a
/// bit for each inode that the kernel knows. A daemon of another version of the form does not read
/// it.
package final class MountRecord: Sendable {
  /// Changes with the form of any part of the record.
  package static let version: UInt64 = 1
  private static let magic: UInt64 = 0x5546_5352_4543_0000

  enum Place {
    static let magic = 0
    static let textLength = 8
    static let notifier = 16
    static let echo = 24
    static let answers = 32
    static let openings = 40
    static let salt = 48
    static let generation = 56
    static let text = 64
    static let doneRequests = 32 << 10
    static let openFiles = 256 << 10
    static let knownInodes = 96 << 20
    static let end = 352 << 20
  }

  private static let textLimit = Place.doneRequests - Place.text
  /// Inodes beyond are not recorded. Numbers are given in order and never again.
  private static let inodeLimit = (Place.end - Place.knownInodes) * 8

  let memory: SharedMemory
  let openings: OpenSlots

  package var file: OpenFile { memory.file }

  package init() throws(Errno) {
    memory = try SharedMemory.make(name: "ubiquityfs-mount", size: Place.end)
    openings = OpenSlots(memory)
    memory.store(UInt64.random(in: 1 ... .max), at: Place.salt)
    memory.store(Self.magic | Self.version, at: Place.magic)
  }

  /// A number for a request that no request of another mount has. The kernel counts those of each
  /// mount from the beginning. 0 where the kernel's is not known.
  func number(of request: RequestIdentity) -> UInt64 {
    request.value == 0 ? 0 : request.value ^ memory.word(at: Place.salt)
  }

  /// What another daemon left. Throws `notSupported` for another form.
  package init(_ file: OpenFile) throws(Errno) {
    memory = try SharedMemory(file)
    guard memory.size == Place.end, memory.word(at: Place.magic) == Self.magic | Self.version
    else { throw .notSupported }
    openings = OpenSlots(memory)
  }

  /// How the mount was made, in the words of who made it.
  package var text: [UInt8] {
    let length = memory.word(at: Place.textLength)
    guard length <= Self.textLimit else { return [] }
    return memory.bytes(at: Place.text, count: Int(length))
  }

  package func setText(_ text: [UInt8]) throws(Errno) {
    guard text.count <= Self.textLimit else { throw .noSpace }
    memory.store(text, at: Place.text)
    memory.store(UInt64(text.count), at: Place.textLength)
  }

  /// The first number of handles for a daemon that goes on with the mount. No number is used again:
  /// the kernel may send once more that one which an earlier daemon had closed is closed.
  func firstHandleOfSuccessor() -> UInt64 {
    let generation = memory.word(at: Place.generation) &+ 1
    memory.store(generation, at: Place.generation)
    return (generation & 0xF_FFFF) << 40
  }

  // MARK: Threads that the kernel may keep

  /// A daemon that was killed may be left with these: they wait in the kernel for an answer, and do
  /// nothing but end when they have it. 0 for none.
  package func setNotifier(thread: Int32) { store(thread, at: Place.notifier) }
  package func setEcho(thread: Int32) { store(thread, at: Place.echo) }
  package var notifier: Int32 { Int32(truncatingIfNeeded: memory.word(at: Place.notifier)) }
  package var echo: Int32 { Int32(truncatingIfNeeded: memory.word(at: Place.echo)) }

  private func store(_ thread: Int32, at offset: Int) {
    memory.store(UInt64(UInt32(bitPattern: thread)), at: offset)
  }

  // MARK: Inodes that the kernel knows

  func becameKnown(_ number: InodeNumber) {
    guard number.rawValue < UInt64(Self.inodeLimit) else { return }
    memory.set(bit: Int(number.rawValue), at: Place.knownInodes)
  }

  func becameUnknown(_ number: InodeNumber) {
    guard number.rawValue < UInt64(Self.inodeLimit) else { return }
    memory.clear(bit: Int(number.rawValue), at: Place.knownInodes)
  }

  package func knownInodes() throws(Errno) -> [InodeNumber] {
    var result: [InodeNumber] = []
    for range in try memory.written(from: Place.knownInodes) {
      for offset in stride(from: range.lowerBound & ~7, to: range.upperBound, by: 8) {
        var word = memory.word(at: offset)
        let first = UInt64(offset - Place.knownInodes) * 8
        while word != 0 {
          result.append(InodeNumber(first + UInt64(word.trailingZeroBitCount)))
          word &= word - 1
        }
      }
    }
    return result
  }
}
