internal import Glibc

/// Loops of system calls. Nothing is allocated in them.
enum Calls {
  static func readFile(_ path: String, with buffer: Buffer, piece: Int = 128 << 10) throws {
    let file = open(path, O_RDONLY | O_CLOEXEC)
    guard file >= 0 else { throw Failure.system("open", path) }
    defer { close(file) }
    while true {
      let count = read(file, buffer.start, piece)
      guard count >= 0 else { throw Failure.system("read", path) }
      if count == 0 { return }
    }
  }

  static func readRandomly(_ path: String, size: Int, count: Int, with buffer: Buffer) throws {
    let file = open(path, O_RDONLY | O_CLOEXEC)
    guard file >= 0 else { throw Failure.system("open", path) }
    defer { close(file) }
    var numbers = Numbers(seed: 2)
    for _ in 0..<count {
      let offset = numbers.next(below: size / 4096) * 4096
      guard pread(file, buffer.start, 4096, offset) == 4096 else {
        throw Failure.system("pread", path)
      }
    }
  }

  /// Maps it and looks at one word of every cache line; gives the sum of them.
  static func scanMapping(_ path: String) throws -> UInt64 {
    let file = open(path, O_RDONLY | O_CLOEXEC)
    guard file >= 0 else { throw Failure.system("open", path) }
    defer { close(file) }
    var status = stat()
    guard fstat(file, &status) == 0 else { throw Failure.system("fstat", path) }
    let size = Int(status.st_size)
    guard let start = mmap(nil, size, PROT_READ, MAP_SHARED, file, 0), start != MAP_FAILED else {
      throw Failure.system("mmap", path)
    }
    defer { munmap(start, size) }
    var sum: UInt64 = 0
    for offset in stride(from: 0, to: size - 8, by: 64) {
      sum &+= start.load(fromByteOffset: offset, as: UInt64.self)
    }
    return sum
  }

  /// A new file, or the old one made empty.
  static func writeFile(
    _ path: String, bytes: Int, with buffer: Buffer, synchronized: Bool = false
  ) throws {
    let file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o644)
    guard file >= 0 else { throw Failure.system("open", path) }
    var rest = bytes
    while rest > 0 {
      let count = write(file, buffer.start, min(rest, buffer.bytes.count))
      guard count > 0 else { throw Failure.system("write", path) }
      rest -= count
    }
    if synchronized, fsync(file) != 0 { throw Failure.system("fsync", path) }
    guard close(file) == 0 else { throw Failure.system("close", path) }
  }

  enum Synchronizing { case never, atTheEnd, eachTime }

  static func writeRandomly(
    _ path: String, size: Int, count: Int, with buffer: Buffer, synchronizing: Synchronizing
  ) throws {
    let file = open(path, O_WRONLY | O_CLOEXEC)
    guard file >= 0 else { throw Failure.system("open", path) }
    var numbers = Numbers(seed: 3)
    for _ in 0..<count {
      let offset = numbers.next(below: size / 4096) * 4096
      guard pwrite(file, buffer.start, 4096, offset) == 4096 else {
        throw Failure.system("pwrite", path)
      }
      if synchronizing == .eachTime, fsync(file) != 0 { throw Failure.system("fsync", path) }
    }
    if synchronizing == .atTheEnd, fsync(file) != 0 { throw Failure.system("fsync", path) }
    guard close(file) == 0 else { throw Failure.system("close", path) }
  }

  static func createFiles(
    _ paths: Paths, bytes: Int, with buffer: Buffer, synchronized: Bool = false
  ) throws {
    for index in 0..<paths.count {
      let file = open(paths[index], O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o644)
      guard file >= 0 else { throw Failure.system("open", String(cString: paths[index])) }
      if bytes > 0, write(file, buffer.start, bytes) != bytes { throw Failure.system("write") }
      if synchronized, fsync(file) != 0 { throw Failure.system("fsync") }
      guard close(file) == 0 else { throw Failure.system("close") }
    }
  }

  static func readFiles(_ paths: Paths, bytes: Int, with buffer: Buffer) throws {
    for index in 0..<paths.count {
      let file = open(paths[index], O_RDONLY | O_CLOEXEC)
      guard file >= 0 else { throw Failure.system("open", String(cString: paths[index])) }
      guard read(file, buffer.start, bytes) == bytes else { throw Failure.system("read") }
      close(file)
    }
  }

  static func lookAtFiles(_ paths: Paths) throws {
    var status = stat()
    for index in 0..<paths.count where lstat(paths[index], &status) != 0 {
      throw Failure.system("lstat", String(cString: paths[index]))
    }
  }

  static func renameFiles(_ old: Paths, to new: Paths) throws {
    for index in 0..<old.count where rename(old[index], new[index]) != 0 {
      throw Failure.system("rename", String(cString: old[index]))
    }
  }

  static func removeFiles(_ paths: Paths) throws {
    for index in 0..<paths.count where unlink(paths[index]) != 0 {
      throw Failure.system("unlink", String(cString: paths[index]))
    }
  }

  static func makeDirectories(_ paths: Paths) throws {
    for index in 0..<paths.count where mkdir(paths[index], 0o755) != 0 {
      throw Failure.system("mkdir", String(cString: paths[index]))
    }
  }

  static func removeDirectories(_ paths: Paths) throws {
    for index in 0..<paths.count where rmdir(paths[index]) != 0 {
      throw Failure.system("rmdir", String(cString: paths[index]))
    }
  }
}

extension Calls {
  /// Reads the directory and those below it, looking at types only; gives how many entries it saw.
  static func walk(_ path: String) throws -> Int { try walk(AT_FDCWD, path) }

  private static func walk(_ parent: Int32, _ name: UnsafePointer<CChar>) throws -> Int {
    let descriptor = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard descriptor >= 0, let directory = fdopendir(descriptor) else {
      throw Failure.system("opendir", String(cString: name))
    }
    defer { closedir(directory) }
    var seen = 0
    while let entry = readdir(directory) {
      let name = UnsafeRawPointer(entry).advanced(by: nameOffset)
        .assumingMemoryBound(to: CChar.self)
      if name[0] == 0x2E, name[1] == 0 || (name[1] == 0x2E && name[2] == 0) { continue }
      seen += 1
      if entry.pointee.d_type == UInt8(DT_DIR) { seen += try walk(descriptor, name) }
    }
    return seen
  }

  private static let nameOffset = MemoryLayout<dirent>.offset(of: \.d_name).unsafelyUnwrapped
}
