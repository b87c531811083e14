internal import CLinux
internal import Glibc
internal import OperationSequences

extension Side {
  func list(_ path: Path) throws -> [Name] {
    let descriptor = try check(
      Glibc.open(path.text, O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC))
    defer { Glibc.close(descriptor) }
    return try listRest(descriptor).map(\.name).sorted()
  }

  /// What is in the directory of a slot now, however far the slot has listed it; nil where it
  /// cannot be listed.
  func entries(ofSlot number: Int) -> [Name: UInt64]? {
    guard let slot = slots[number] else { return nil }
    let descriptor = openat(slot, ".", O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC)
    guard descriptor >= 0 else { return nil }
    defer { Glibc.close(descriptor) }
    guard let entries = try? listRest(descriptor) else { return nil }
    return Dictionary(entries.map { ($0.name, $0.number) }, uniquingKeysWith: { first, _ in first })
  }

  private func listRest(_ descriptor: Int32) throws -> [Entry] {
    var result: [Entry] = []
    while true {
      let piece = try entries(descriptor, room: 4096)
      if piece.isEmpty { return result }
      result += piece
    }
  }

  /// At most so many: what else the system call gave is given back.
  func listSome(_ number: Int, _ count: Int) throws -> [Name] {
    let descriptor = try slot(number)
    var names: [Name] = []
    while names.count < count {
      let piece = try entries(descriptor, room: 600)
      if piece.isEmpty { break }
      let taken = piece.prefix(count - names.count)
      names += taken.map(\.name)
      offsets[number, default: []] += taken.map(\.offset)
      if taken.count < piece.count, let last = taken.last {
        try check(lseek(descriptor, last.offset, SEEK_SET))
      }
    }
    return names
  }

  func seekListing(_ number: Int, _ quarters: Int) throws {
    let descriptor = try slot(number)
    let status = try status(of: descriptor)
    guard status.kind == .directory else { throw Refusal(ENOTDIR) }
    guard status.links > 0 else { throw Refusal(ENOENT) }
    let given = offsets[number] ?? []
    let kept = given.prefix(given.count * quarters / 4)
    try check(lseek(descriptor, kept.last ?? 0, SEEK_SET))
    offsets[number] = Array(kept)
  }

  private struct Entry {
    let name: Name
    let number: UInt64
    let offset: off_t
  }

  private func entries(_ descriptor: Int32, room: Int) throws -> [Entry] {
    var buffer = [UInt8](repeating: 0, count: room)
    let end = Int(try check(linux_getdents64(descriptor, &buffer, room)))
    var result: [Entry] = []
    var start = 0
    while start < end {
      // struct linux_dirent64: d_ino, d_off, d_reclen, d_type, d_name.
      func value(_ from: Int, _ count: Int) -> UInt64 {
        (0..<count).reduce(0) { $0 | UInt64(buffer[start + from + $1]) << UInt64(8 * $1) }
      }
      let length = Int(value(16, 2))
      let bytes = buffer[(start + 19)..<(start + length)].prefix { $0 != 0 }
      result.append(
        Entry(
          name: Name(Array(bytes)), number: value(0, 8),
          offset: off_t(bitPattern: UInt(value(8, 8)))))
      start += length
    }
    return result
  }
}
