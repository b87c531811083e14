internal import Glibc
package import Model
package import Platform
package import SystemPackage

/// The directory of content files: the bytes of items, by item and generation, never by name.
///
/// `<directory>/xx/<item hex>.<generation hex>`, `xx` being the first two digits of the item. The
/// store knows no names, no sizes and no versions: the catalog does. All calls may be made from any
/// thread; errors are what the system call gave. The registry's lock is a leaf.
package final class ContentFiles: Sendable {
  package let directory: String
  let partials = Lock<[ContentKey: PartialContent]>([:])
  /// Subdirectories made by this process whose own name may not be durable yet. A leaf.
  private let newShards = Lock<Set<String>>([])
  private let namesGoAlong: Bool
  package let descriptors: DescriptorBudget
  /// The file system of the contents as it is now; nil if it cannot be told.
  let disk: @Sendable () -> DiskStatistics?
  /// Whether copies share blocks where the file system can.
  let clones: Bool

  /// Makes the directory where it is missing. A test gives the `disk` that copies meet, and has
  /// them made where the file system could share blocks.
  package init(
    directory: String, descriptors: DescriptorBudget = .shared,
    disk: (@Sendable () -> DiskStatistics?)? = nil, clones: Bool = true
  ) throws(Errno) {
    self.directory = directory
    self.descriptors = descriptors
    self.disk = disk ?? { try? DiskStatistics.of(directory) }
    self.clones = clones
    try Files.makeDirectories(directory)
    // ext4 keeps the files of neighbouring directories together. Without a journal it then passes,
    // at each making of a file, over every inode among them that was freed in the last minutes, one
    // by one: making files after many were removed took several times as long.
    Files.spreadSubdirectories(of: directory)
    namesGoAlong = FileSystemKind.of(directory).synchronizesNames
  }

  /// Where the content file of `key` is, or would be.
  package func path(of key: ContentKey) -> String { "\(shard(of: key))/\(key)" }

  /// Opens a content file. With `create` it is made where it is missing, and is empty then;
  /// without, a missing one is ENOENT.
  package func open(_ key: ContentKey, writable: Bool, create: Bool = false) throws(Errno)
    -> OpenFile
  {
    let flags = (writable ? O_RDWR : O_RDONLY) | O_NOFOLLOW | (create ? O_CREAT : 0)
    let path = path(of: key)
    do {
      return try Self.open(path, flags, descriptors)
    } catch .noSuchFileOrDirectory where create {
      try makeShard(of: key)
      return try Self.open(path, flags, descriptors)
    }
  }

  /// Closes files that are not in use where the process has no descriptor left.
  static func open(
    _ path: String, _ flags: Int32, _ descriptors: DescriptorBudget
  ) throws(Errno) -> OpenFile {
    do {
      return try OpenFile.open(path, flags: flags)
    } catch  where error == .tooManyOpenFiles || error == .tooManyOpenFilesInSystem {
      guard descriptors.relieve() else { throw error }
      return try OpenFile.open(path, flags: flags)
    }
  }

  private func makeShard(of key: ContentKey) throws(Errno) {
    let shard = shard(of: key)
    try Files.makeDirectories(shard)
    newShards.withLock { _ = $0.insert(shard) }
    FaultPoint.reach("content.shard-made")
  }

  /// An empty file that has no name and goes with its last descriptor, on the disk of the contents.
  package func unnamed() throws(Errno) -> OpenFile {
    // O_TMPFILE, which the headers make of parts.
    let flags = O_RDWR | O_DIRECTORY | 0o20000000
    do {
      return try OpenFile.open(directory, flags: flags)
    } catch let error where Self.knowsNoUnnamed.contains(error) {
      let path = "\(directory)/.unnamed-\(getpid())-\(UInt64.random(in: 0 ... .max))"
      let file = try OpenFile.open(path, flags: O_RDWR | O_CREAT | O_EXCL)
      try Files.remove(path)
      return file
    }
  }

  /// What a file system without O_TMPFILE, or a kernel that does not know it, answers.
  private static let knowsNoUnnamed: [Errno] = [
    .notSupportedOnSocket, .notSupported, .isDirectory, .noFunction,
  ]

  package func exists(_ key: ContentKey) -> Bool { Files.exists(path(of: key)) }

  /// Unlinks the content file, and drops what was known of its being partial. What has it open
  /// keeps it. A missing file is no error.
  ///
  /// The catalog row that named it must be gone durably first: otherwise a crash leaves a row whose
  /// bytes are lost.
  package func remove(_ key: ContentKey) throws(Errno) {
    dropPartial(key)
    FaultPoint.reach("content.removing")
    do { try Files.remove(path(of: key)) } catch .noSuchFileOrDirectory {}
  }

  /// The 512-byte blocks that the file takes on the disk; 0 where there is none.
  package func blocks(_ key: ContentKey) throws(Errno) -> UInt64 {
    try found(key)?.blocks ?? 0
  }

  /// Length, modification time and blocks of the file; nil where there is none.
  package func found(_ key: ContentKey) throws(Errno) -> (
    size: UInt64, modified: Timestamp, blocks: UInt64
  )? {
    do {
      let status = try Files.status(path(of: key))
      return (
        UInt64(status.st_size), Timestamp(status.st_mtim),
        UInt64(max(0, status.st_blocks))
      )
    } catch .noSuchFileOrDirectory {
      return nil
    }
  }

  /// The key of every file here. Files that are none of ours are passed over.
  package func keys() throws(Errno) -> [ContentKey] {
    var result: [ContentKey] = []
    for shard in try Files.names(in: directory) where shard.utf8.count == 2 {
      let names: [String]
      do { names = try Files.names(in: "\(directory)/\(shard)") } catch .notDirectory { continue }
      for name in names {
        if let key = ContentKey(name), name.hasPrefix(shard) { result.append(key) }
      }
    }
    return result
  }

  /// Makes the file and its name durable. `file` is an open descriptor of `key`.
  package func synchronize(_ key: ContentKey, _ file: OpenFile) throws(Errno) {
    let shard = shard(of: key)
    try file.synchronize()
    FaultPoint.reach("content.synced")
    if !namesGoAlong {
      try Files.synchronizeDirectory(shard)
      if newShards.withLock({ $0.contains(shard) }) {
        try Files.synchronizeDirectory(directory)
        newShards.withLock { _ = $0.remove(shard) }
      }
    }
    FaultPoint.reach("content.name-synced")
  }

  /// Whether something, a mapping included, has the file open for writing: a mapping outlives the
  /// close of the file it was made from, and only a lease tells (fcntl(2), F_SETLEASE).
  package func hasWriter(_ key: ContentKey) throws(Errno) -> Bool {
    try fileWithWriter(key) != nil
  }

  /// A read-only descriptor of the file where something has it open for writing, else nil.
  package func fileWithWriter(_ key: ContentKey) throws(Errno) -> OpenFile? {
    let file: OpenFile
    do { file = try open(key, writable: false) } catch .noSuchFileOrDirectory { return nil }
    return try file.hasWriter() ? file : nil
  }

  /// Gives a content file a second key. What was known of it stays with the first.
  package func link(_ key: ContentKey, as other: ContentKey) throws(Errno) {
    do throws(Errno) {
      try Files.link(path(of: key), as: path(of: other))
    } catch .noSuchFileOrDirectory {
      try makeShard(of: other)
      try Files.link(path(of: key), as: path(of: other))
    }
  }

  /// Copies a content file, holes kept, to a key that has none; the data is shared where the file
  /// system can. On failure nothing is left at `target`.
  package func copy(from source: ContentKey, to target: ContentKey) throws(Errno) {
    let input = try open(source, writable: false)
    let output = try open(target, writable: true, create: true)
    do throws(Errno) {
      try ContentFiles.copy(input, to: output)
      FaultPoint.reach("content.copied")
    } catch {
      try? remove(target)
      throw error
    }
  }

  /// Copies the whole of `input` over `output`, holes kept.
  package static func copy(_ input: OpenFile, to output: OpenFile) throws(Errno) {
    try copy(input, to: output, piece: .max) { _ in true }
  }

  /// The same in pieces of at most `piece` bytes. `goesOn` gets the length of each before it is
  /// copied; with false the copy ends there.
  static func copy(
    _ input: OpenFile, to output: OpenFile, piece: UInt64, goesOn: (UInt64) -> Bool
  ) throws(Errno) {
    let size = try input.length()
    try output.truncate(to: 0)
    try output.truncate(to: size)
    var position: UInt64 = 0
    while position < size, let data = try input.nextData(from: position), data < size {
      let end = min(size, try input.nextHole(from: data) ?? size)
      position = data
      while position < end {
        let length = min(piece, end - position)
        guard goesOn(length) else { return }
        try copy(input, to: output, range: position..<position + length)
        position += length
      }
    }
  }

  private static func copy(_ input: OpenFile, to output: OpenFile, range: Range<UInt64>)
    throws(Errno)
  {
    var position = range.lowerBound
    while position < range.upperBound {
      let length = Int(min(range.upperBound - position, 1 << 30))
      let count: Int
      do {
        count = try input.copyRange(at: position, count: length, to: output, at: position)
      } catch let error where cannotCopyInKernel.contains(error) {
        count = 0
      }
      guard count > 0 else {
        return try copyThroughMemory(input, to: output, range: position..<range.upperBound)
      }
      position += UInt64(count)
    }
  }

  private static let cannotCopyInKernel: [Errno] = [
    .improperLink, .noFunction, .notSupportedOnSocket, .invalidArgument,
  ]

  private static func copyThroughMemory(
    _ input: OpenFile, to output: OpenFile, range: Range<UInt64>
  ) throws(Errno) {
    var position = range.lowerBound
    while position < range.upperBound {
      let wanted = Int(min(range.upperBound - position, 1 << 20))
      let bytes = try input.read(count: wanted, at: position)
      // The file got shorter meanwhile: the rest of the copy stays a hole, as it reads there.
      guard !bytes.isEmpty else { return }
      try output.write(bytes, at: position)
      position += UInt64(bytes.count)
    }
  }

  private func shard(of key: ContentKey) -> String {
    let first = UInt8(truncatingIfNeeded: key.item.high >> 56)
    return "\(directory)/\(Hex.encode(CollectionOfOne(first)))"
  }
}
