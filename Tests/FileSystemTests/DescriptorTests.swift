import ContentStore
import FileSystem
import Glibc
import Model
import Platform
import SystemPackage
import Testing

/// Content files of very many open files share few descriptors.
@Suite struct DescriptorTests {
  private let container: Container

  init() throws { container = try Container(descriptors: DescriptorBudget(limit: 8)) }

  /// The descriptors of this process that are of the container's content files.
  private func descriptors() throws -> Int {
    try Files.names(in: "/proc/self/fd").count { name in
      var buffer = [CChar](repeating: 0, count: 4096)
      let length = readlink("/proc/self/fd/\(name)", &buffer, buffer.count - 1)
      let path = String(
        decoding: buffer.prefix(max(0, length)).map { UInt8(bitPattern: $0) }, as: UTF8.self)
      return path.hasPrefix(container.content.directory + "/")
    }
  }

  @Test("a hundred open files are read and written with a few descriptors")
  func manyOpenFiles() throws {
    let files = try (0..<100).map { try container.create("file \($0)", "text \($0)") }
    #expect(try descriptors() <= 24)
    for (index, file) in files.enumerated() {
      try container.write(file.handle, "TEXT", at: 0)
      #expect(try container.read(file.handle) == "TEXT \(index)")
    }
    #expect(try descriptors() <= 24)
    for file in files {
      try container.system.flush(file.handle)
      try container.system.synchronize(file.handle, dataOnly: false)
      container.system.release(file.handle)
    }
    for (index, file) in files.enumerated() {
      #expect(try container.size(file.number) == UInt64("text \(index)".utf8.count))
      let inode = try container.catalog.inode(file.number)
      let key = ContentKey(item: inode.item, generation: inode.generation)
      #expect(inode.blocks == (try container.content.blocks(key)))
    }
    #expect(try descriptors() == 0)
  }

  @Test("a hundred partly local files are read with a few descriptors")
  func manyPartialFiles() throws {
    let bytes = [UInt8](repeating: 0x61, count: 64 << 10)
    let handles = try (0..<100).map { number in
      try container.open(try container.appear("far \(number)", bytes))
    }
    for handle in handles { #expect(try container.read(handle, at: 4096, count: 4) == "aaaa") }
    #expect(try descriptors() <= 24)
    // Again, and what is missing still comes.
    for handle in handles { #expect(try container.read(handle, at: 4096, count: 4) == "aaaa") }
    for handle in handles { #expect(try container.read(handle, at: 40960, count: 4) == "aaaa") }
    #expect(try descriptors() <= 24)
    for handle in handles { container.system.release(handle) }
  }

  @Test("an unlinked file keeps its content when its descriptor was closed")
  func unlinkedFiles() throws {
    let (_, handle) = try container.create("gone", "kept")
    try container.system.remove(container.name("gone"), in: .root, directory: false)
    try container.catalog.commit(durable: true)
    let others = try (0..<40).map { try container.create("other \($0)", "x") }
    #expect(try container.read(handle) == "kept")
    try container.write(handle, "KEPT")
    #expect(try container.read(handle) == "KEPT")
    for other in others { container.system.release(other.handle) }
    container.system.release(handle)
  }
}
