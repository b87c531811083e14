internal import CLinux
internal import Glibc
package import SystemPackage

/// Memory in a file of its own, which outlives this process where another one keeps the file.
///
/// Words are stored in order: after a kill, what was written before a word is there if the word is.
/// Offsets are the caller's to check against `size`; one outside of it ends the process.
package final class SharedMemory: @unchecked Sendable {
  package let file: OpenFile
  package let size: Int
  private let start: UnsafeMutableRawPointer

  package static func make(name: String, size: Int) throws(Errno) -> SharedMemory {
    let descriptor = linux_memory_file(name, UInt64(size))
    guard descriptor >= 0 else { throw Errno(rawValue: -descriptor) }
    return try SharedMemory(OpenFile(owning: descriptor))
  }

  /// Of a file that `make` made, in this process or in another one.
  package init(_ file: OpenFile) throws(Errno) {
    let status = try file.status()
    guard status.st_size > 0, status.st_mode & S_IFMT == S_IFREG else { throw .invalidArgument }
    let start = mmap(
      nil, Int(status.st_size), PROT_READ | PROT_WRITE, MAP_SHARED, file.descriptor, 0)
    guard let start, start != MAP_FAILED else { throw Errno(rawValue: errno) }
    self.file = file
    self.start = start
    size = Int(status.st_size)
  }

  deinit { munmap(start, size) }

  private func place(_ offset: Int, _ count: Int) -> UnsafeMutableRawPointer {
    precondition(offset >= 0 && count >= 0 && offset <= size - count, "outside of shared memory")
    return start + offset
  }

  package func word(at offset: Int) -> UInt64 { linux_load_word(place(offset, 8)) }

  package func store(_ value: UInt64, at offset: Int) { linux_store_word(place(offset, 8), value) }

  /// `bit` is one of a table that begins at `offset`.
  package func set(bit: Int, at offset: Int) {
    _ = linux_set_bit(place(offset + bit / 64 * 8, 8), UInt64(bit % 64))
  }

  package func clear(bit: Int, at offset: Int) {
    linux_clear_bit(place(offset + bit / 64 * 8, 8), UInt64(bit % 64))
  }

  /// The parts of the file that were ever written to, from `offset` on. The rest is zero.
  package func written(from offset: Int) throws(Errno) -> [Range<Int>] {
    var result: [Range<Int>] = []
    var position = UInt64(offset)
    while position < UInt64(size), let start = try file.nextData(from: position) {
      let end = try file.nextHole(from: start) ?? UInt64(size)
      result.append(Int(start)..<Int(min(end, UInt64(size))))
      position = end
    }
    return result
  }

  package func bytes(at offset: Int, count: Int) -> [UInt8] {
    [UInt8](UnsafeRawBufferPointer(start: place(offset, count), count: count))
  }

  package func store(_ bytes: [UInt8], at offset: Int) {
    let start = place(offset, bytes.count)
    UnsafeMutableRawBufferPointer(start: start, count: bytes.count).copyBytes(from: bytes)
  }
}
