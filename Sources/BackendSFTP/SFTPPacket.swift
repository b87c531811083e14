// Packets of the SSH File Transfer Protocol, version 3, with OpenSSH's extensions.
// Sources: draft-ietf-secsh-filexfer-02; OpenSSH, PROTOCOL, section 4.

/// Types of packets.
enum SFTPType {
  static let start: UInt8 = 1
  static let version: UInt8 = 2
  static let open: UInt8 = 3
  static let close: UInt8 = 4
  static let read: UInt8 = 5
  static let write: UInt8 = 6
  static let status: UInt8 = 101
  static let handle: UInt8 = 102
  static let data: UInt8 = 103
  static let names: UInt8 = 104
  static let attributes: UInt8 = 105
  static let linkStatus: UInt8 = 7
  static let handleStatus: UInt8 = 8
  static let openDirectory: UInt8 = 11
  static let readDirectory: UInt8 = 12
  static let remove: UInt8 = 13
  static let makeDirectory: UInt8 = 14
  static let removeDirectory: UInt8 = 15
  static let fileStatus: UInt8 = 17
  static let extended: UInt8 = 200
  static let extendedReply: UInt8 = 201
}

/// The codes of a status reply.
enum SFTPCode {
  static let ok: UInt32 = 0
  static let end: UInt32 = 1
  static let noSuchFile: UInt32 = 2
  static let permissionDenied: UInt32 = 3
  static let failure: UInt32 = 4
  static let unsupported: UInt32 = 8
}

/// Builds a request. All integers are big-endian.
struct PacketWriter {
  private(set) var bytes: [UInt8] = []

  mutating func byte(_ value: UInt8) { bytes.append(value) }
  mutating func word(_ value: UInt32) { append(value) }
  mutating func long(_ value: UInt64) { append(value) }

  mutating func text(_ value: String) { data(value.utf8) }

  mutating func data(_ value: some Collection<UInt8>) {
    append(UInt32(truncatingIfNeeded: value.count))
    bytes.append(contentsOf: value)
  }

  private mutating func append(_ value: some FixedWidthInteger) {
    withUnsafeBytes(of: value.bigEndian) { bytes.append(contentsOf: $0) }
  }
}

/// Reads a reply, which the server may have made in any way. Every length is checked against the
/// bytes that are left.
struct PacketReader {
  fileprivate var rest: ArraySlice<UInt8>

  init(_ bytes: ArraySlice<UInt8>) { rest = bytes }

  mutating func byte() throws(SFTPFailure) -> UInt8 {
    guard let byte = rest.popFirst() else { throw .malformed }
    return byte
  }

  mutating func word() throws(SFTPFailure) -> UInt32 {
    try take(4).reduce(0) { $0 << 8 | UInt32($1) }
  }

  mutating func long() throws(SFTPFailure) -> UInt64 {
    try take(8).reduce(0) { $0 << 8 | UInt64($1) }
  }

  mutating func data() throws(SFTPFailure) -> ArraySlice<UInt8> { try take(Int(word())) }

  /// Invalid UTF-8 is replaced.
  mutating func text() throws(SFTPFailure) -> String { String(decoding: try data(), as: UTF8.self) }

  var isAtEnd: Bool { rest.isEmpty }

  private mutating func take(_ count: Int) throws(SFTPFailure) -> ArraySlice<UInt8> {
    guard count <= rest.count else { throw .malformed }
    defer { rest = rest.dropFirst(count) }
    return rest.prefix(count)
  }
}

/// The attributes of a file, as far as they are used.
struct SFTPAttributes: Equatable, Sendable {
  var size: UInt64?
  /// File type and permission bits. Nil: the server does not tell.
  var mode: UInt32?
  /// Seconds since 1970.
  var modified: UInt32?

  init(_ reader: inout PacketReader) throws(SFTPFailure) {
    let flags = try reader.word()
    if flags & 1 != 0 { size = try reader.long() }
    if flags & 2 != 0 { _ = (try reader.word(), try reader.word()) }
    if flags & 4 != 0 { mode = try reader.word() }
    if flags & 8 != 0 { (_, modified) = (try reader.word(), try reader.word()) }
    if flags & 0x8000_0000 != 0 {
      for _ in 0..<min(try reader.word(), 64) { _ = (try reader.data(), try reader.data()) }
    }
  }
}

enum SFTPReply: Sendable {
  case status(UInt32, String)
  case handle([UInt8])
  case data([UInt8])
  case names([(name: [UInt8], attributes: SFTPAttributes)])
  case attributes(SFTPAttributes)
  case extended([UInt8])

  /// The number of names that one reply may have.
  private static let mostNames: UInt32 = 10_000

  init(_ type: UInt8, _ reader: inout PacketReader) throws(SFTPFailure) {
    switch type {
    case SFTPType.status:
      let code = try reader.word()
      // Old servers send no text.
      self = .status(code, reader.isAtEnd ? "" : try reader.text())
    case SFTPType.handle: self = .handle(Array(try reader.data()))
    case SFTPType.data: self = .data(Array(try reader.data()))
    case SFTPType.names:
      let count = try reader.word()
      guard count <= Self.mostNames else { throw .malformed }
      var names: [(name: [UInt8], attributes: SFTPAttributes)] = []
      for _ in 0..<count {
        let name = Array(try reader.data())
        // A line as `ls -l` prints it.
        _ = try reader.data()
        names.append((name, try SFTPAttributes(&reader)))
      }
      self = .names(names)
    case SFTPType.attributes: self = .attributes(try SFTPAttributes(&reader))
    case SFTPType.extendedReply: self = .extended(Array(reader.data(all: ())))
    default: throw .malformed
    }
  }
}

extension PacketReader {
  /// Everything that is left.
  fileprivate mutating func data(all: Void) -> ArraySlice<UInt8> {
    defer { rest = [] }
    return rest
  }
}

/// The reason why a call failed.
enum SFTPFailure: Error, Equatable, Sendable {
  /// The server's answer.
  case status(UInt32, String)
  /// `ssh` ended, with the last line that it printed.
  case ended(String)
  /// The server did not answer in time.
  case silent
  /// The server sent bytes that are no packet of the protocol.
  case malformed
  /// `ssh` cannot be started.
  case notStarted(String)
  /// The directory on the server is no store, as where its disk is not mounted.
  case storeMissing
  /// Something else is where the store needs a file or a directory.
  case obstructed(String)
  case tooLarge(String)
}
