internal import CLinux
internal import Catalog
internal import ContentStore
internal import ControlProtocol
internal import Glibc
internal import Model
internal import Platform
internal import SystemPackage

/// Copies the local part of a catalog's tree into a directory: names, content, links, modes, times
/// and attributes.
struct TreeExport {
  private let catalog: ContainerCatalog
  private let content: ContentFiles
  private let root: [UInt8]
  private(set) var result: RestoredSetAside
  /// Of files that have several names.
  private var linked: [InodeNumber: [UInt8]] = [:]

  private static let mostListed = 10_000

  init(catalog: ContainerCatalog, content: ContentFiles, to directory: String) {
    self.catalog = catalog
    self.content = content
    root = Array(directory.utf8)
    result = RestoredSetAside(directory: PathBytes(directory))
  }

  mutating func run() throws(Errno) { try copy(.root, to: root) }

  private mutating func copy(_ directory: InodeNumber, to path: [UInt8]) throws(Errno) {
    var after: Int64 = 0
    while true {
      let page = try catalog.readDirectory(directory, after: after, limit: 1000)
      guard let last = page.last else { return }
      after = last.offset
      for entry in page { try copy(entry.inode, to: path + [0x2F] + entry.name.bytes) }
    }
  }

  private mutating func copy(_ inode: Catalog.Inode, to path: [UInt8]) throws(Errno) {
    switch inode.kind {
    case .directory:
      try call(path) { mkdir($0, 0o700) }
      try copy(inode.number, to: path)
    case .symbolicLink:
      let target = inode.target.map { CChar(bitPattern: $0) } + [0]
      try call(path) { symlink(target, $0) }
    case .file:
      guard try copyFile(inode, to: path) else { return }
    default:
      // A FIFO, socket or device: it holds nothing.
      return
    }
    try copyAttributes(of: inode, to: path)
  }

  /// False: nothing more is to be done for it.
  private mutating func copyFile(_ inode: Catalog.Inode, to path: [UInt8]) throws(Errno) -> Bool {
    if let first = linked[inode.number] {
      let name = first.map { CChar(bitPattern: $0) } + [0]
      try call(path) { link(name, $0) }
      return false
    }
    guard inode.content == .local else {
      if result.placeholders.count < Self.mostListed {
        result.placeholders.append(PathBytes(Array(path.dropFirst(root.count + 1))))
      } else {
        result.unlisted += 1
      }
      return false
    }
    var descriptor: Int32 = -1
    try call(path) { name in
      descriptor = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
      return descriptor
    }
    let target = OpenFile(owning: descriptor)
    if inode.size > 0 {
      let key = ContentKey(item: inode.item, generation: inode.generation)
      try Self.copy(try content.open(key, writable: false), to: target, size: inode.size)
    }
    try target.synchronize()
    result.files += 1
    result.bytes &+= inode.size
    if inode.linkCount > 1 { linked[inode.number] = path }
    return true
  }

  /// Holes stay holes.
  private static func copy(_ source: OpenFile, to target: OpenFile, size: UInt64) throws(Errno) {
    try target.truncate(to: size)
    var offset: UInt64 = 0
    while offset < size, let start = try source.nextData(from: offset), start < size {
      let end = min(try source.nextHole(from: start) ?? size, size)
      offset = start
      while offset < end {
        let bytes = try source.read(count: Int(min(end - offset, 1 << 20)), at: offset)
        guard !bytes.isEmpty else { return }
        try target.write(bytes, at: offset)
        offset += UInt64(bytes.count)
      }
    }
  }

  private func copyAttributes(of inode: Catalog.Inode, to path: [UInt8]) throws(Errno) {
    for name in try catalog.attributeNames(of: inode.number) {
      let value = try catalog.attribute(name, of: inode.number)
      // A file system without such attributes takes the files without them.
      try? call(path) { linux_lsetxattr($0, name, value, value.count, 0) }
    }
    if inode.kind != .symbolicLink {
      try call(path) { chmod($0, mode_t(inode.mode & 0o777)) }
    }
    let times = [inode.accessed, inode.modified].map(\.timespec)
    try call(path) { utimensat(AT_FDCWD, $0, times, Int32(AT_SYMLINK_NOFOLLOW)) }
  }

  private func call(_ path: [UInt8], _ body: (UnsafePointer<CChar>) -> Int32) throws(Errno) {
    let name = path.map { CChar(bitPattern: $0) } + [0]
    _ = try retrying { body(name) }
  }
}

extension Timestamp {
  fileprivate var timespec: Glibc.timespec {
    let second: Int64 = 1_000_000_000
    let (quotient, remainder) = nanoseconds.quotientAndRemainder(dividingBy: second)
    return remainder < 0
      ? Glibc.timespec(tv_sec: Int(quotient - 1), tv_nsec: Int(remainder + second))
      : Glibc.timespec(tv_sec: Int(quotient), tv_nsec: Int(remainder))
  }
}
