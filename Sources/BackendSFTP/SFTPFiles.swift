/// The calls on files of one session.
struct SFTPFiles: Sendable {
  let session: SFTPSession

  enum Mode: UInt32 {
    case reading = 1
    /// SSH_FXF_WRITE, CREAT, EXCL.
    case new = 0x2A
  }

  /// What OpenSSH has had since version 6.3 (2013), and the store cannot do without.
  static let neededExtensions = [
    "hardlink@openssh.com", "posix-rename@openssh.com", "fsync@openssh.com",
  ]

  /// Every server takes requests of that size.
  private static let block = 32 << 10
  /// Requests of one call that are on their way at the same time.
  private static let window = 32
  private static let fileMode: UInt32 = 0o600
  private static let directoryMode: UInt32 = 0o700
  /// The number of names of a directory, as a budget.
  private static let mostNames = 2_000_000

  var missingExtensions: [String] {
    Self.neededExtensions.filter { session.extensions[$0] == nil }
  }

  // MARK: Files

  func open(_ path: String, _ mode: Mode) async throws(SFTPFailure) -> [UInt8] {
    try handle(
      await session.call(SFTPType.open) {
        $0.text(path)
        $0.word(mode.rawValue)
        if mode == .new {
          $0.word(4)
          $0.word(Self.fileMode)
        } else {
          $0.word(0)
        }
      })
  }

  func close(_ handle: [UInt8]) async {
    _ = try? await session.call(SFTPType.close) { $0.data(handle) }
  }

  func status(of handle: [UInt8]) async throws(SFTPFailure) -> SFTPAttributes {
    try attributes(await session.call(SFTPType.handleStatus) { $0.data(handle) })
  }

  /// Links are not followed.
  func status(_ path: String) async throws(SFTPFailure) -> SFTPAttributes {
    try attributes(await session.call(SFTPType.linkStatus) { $0.text(path) })
  }

  /// Links are followed.
  func statusOfTarget(_ path: String) async throws(SFTPFailure) -> SFTPAttributes {
    try attributes(await session.call(SFTPType.fileStatus) { $0.text(path) })
  }

  /// Fewer bytes where the file ends before.
  func read(_ handle: [UInt8], _ range: Range<UInt64>) async throws(SFTPFailure) -> [UInt8] {
    let blocks = stride(from: range.lowerBound, to: range.upperBound, by: Self.block).map {
      $0..<min($0 + UInt64(Self.block), range.upperBound)
    }
    let parts = try await pipelined(blocks) { block throws(SFTPFailure) in
      try await readBlock(handle, block)
    }
    var result: [UInt8] = []
    result.reserveCapacity(parts.reduce(0) { $0 + $1.count })
    for part in parts {
      result += part
      guard part.count == Self.block else { break }
    }
    return result
  }

  private func readBlock(
    _ handle: [UInt8], _ range: Range<UInt64>
  ) async throws(SFTPFailure) -> [UInt8] {
    var result: [UInt8] = []
    while result.count < range.count {
      let start = range.lowerBound + UInt64(result.count)
      let wanted = range.count - result.count
      let reply = try await session.call(SFTPType.read) {
        $0.data(handle)
        $0.long(start)
        $0.word(UInt32(wanted))
      }
      switch reply {
      case .data(let bytes) where !bytes.isEmpty && bytes.count <= wanted: result += bytes
      case .status(SFTPCode.end, _): return result
      case .status(let code, let text): throw .status(code, text)
      default: throw .malformed
      }
    }
    return result
  }

  func write(_ handle: [UInt8], _ bytes: [UInt8]) async throws(SFTPFailure) {
    let blocks = stride(from: 0, to: bytes.count, by: Self.block).map {
      $0..<min($0 + Self.block, bytes.count)
    }
    _ = try await pipelined(blocks) { block throws(SFTPFailure) in
      try await succeed(
        session.call(SFTPType.write) {
          $0.data(handle)
          $0.long(UInt64(block.lowerBound))
          $0.data(bytes[block])
        })
    }
  }

  func synchronize(_ handle: [UInt8]) async throws(SFTPFailure) {
    try await extended("fsync@openssh.com") { $0.data(handle) }
  }

  // MARK: Names

  /// A second name for a file. Fails with FAILURE where there is something.
  func link(_ old: String, _ new: String) async throws(SFTPFailure) {
    try await extended("hardlink@openssh.com") {
      $0.text(old)
      $0.text(new)
    }
  }

  /// Replaces what has the new name.
  func rename(_ old: String, _ new: String) async throws(SFTPFailure) {
    try await extended("posix-rename@openssh.com") {
      $0.text(old)
      $0.text(new)
    }
  }

  func remove(_ path: String) async throws(SFTPFailure) {
    try await succeed(session.call(SFTPType.remove) { $0.text(path) })
  }

  func removeDirectory(_ path: String) async throws(SFTPFailure) {
    try await succeed(session.call(SFTPType.removeDirectory) { $0.text(path) })
  }

  func makeDirectory(_ path: String) async throws(SFTPFailure) {
    try await succeed(
      session.call(SFTPType.makeDirectory) {
        $0.text(path)
        $0.word(4)
        $0.word(Self.directoryMode)
      })
  }

  func entries(_ path: String) async throws(SFTPFailure) -> [(
    name: [UInt8], attributes: SFTPAttributes
  )] {
    let handle = try self.handle(await session.call(SFTPType.openDirectory) { $0.text(path) })
    do throws(SFTPFailure) {
      let entries = try await entries(handle)
      await close(handle)
      return entries
    } catch {
      await close(handle)
      throw error
    }
  }

  private func entries(_ handle: [UInt8]) async throws(SFTPFailure) -> [(
    name: [UInt8], attributes: SFTPAttributes
  )] {
    var result: [(name: [UInt8], attributes: SFTPAttributes)] = []
    while true {
      switch try await session.call(SFTPType.readDirectory, { $0.data(handle) }) {
      case .names(let names):
        guard !names.isEmpty, result.count + names.count <= Self.mostNames else { throw .malformed }
        result += names
      case .status(SFTPCode.end, _): return result
      case .status(let code, let text): throw .status(code, text)
      default: throw .malformed
      }
    }
  }

  /// Whether the server's disk has neither blocks nor inodes left. False if it does not tell.
  func isFull(_ path: String) async -> Bool {
    guard session.extensions["statvfs@openssh.com"] != nil,
      case .extended(let bytes)? = try? await session.call(
        SFTPType.extended,
        {
          $0.text("statvfs@openssh.com")
          $0.text(path)
        })
    else { return false }
    // f_bsize, f_frsize, f_blocks, f_bfree, f_bavail, f_files, f_ffree, f_favail
    var reader = PacketReader(bytes[...])
    let figures = (0..<8).compactMap { _ in try? reader.long() }
    guard figures.count == 8 else { return false }
    return figures[4] == 0 || (figures[5] > 0 && figures[7] == 0)
  }

  // MARK: Replies

  private func extended(
    _ name: String, _ build: (inout PacketWriter) -> Void
  ) async throws(SFTPFailure) {
    try await succeed(
      session.call(SFTPType.extended) {
        $0.text(name)
        build(&$0)
      })
  }

  private func succeed(_ reply: SFTPReply) throws(SFTPFailure) {
    guard case .status(let code, let text) = reply else { throw .malformed }
    guard code == SFTPCode.ok else { throw .status(code, text) }
  }

  private func handle(_ reply: SFTPReply) throws(SFTPFailure) -> [UInt8] {
    switch reply {
    case .handle(let handle): return handle
    case .status(let code, let text): throw .status(code, text)
    default: throw .malformed
    }
  }

  private func attributes(_ reply: SFTPReply) throws(SFTPFailure) -> SFTPAttributes {
    switch reply {
    case .attributes(let attributes): return attributes
    case .status(let code, let text): throw .status(code, text)
    default: throw .malformed
    }
  }

  /// The results for all parts, in their order, with a window of calls on their way.
  private func pipelined<Part: Sendable, Answer: Sendable>(
    _ parts: [Part], _ body: @escaping @Sendable (Part) async throws(SFTPFailure) -> Answer
  ) async throws(SFTPFailure) -> [Answer] {
    let results = await withTaskGroup(of: (Int, Result<Answer, SFTPFailure>).self) { group in
      var next = 0
      func add() {
        guard next < parts.count else { return }
        let (index, part) = (next, parts[next])
        next += 1
        group.addTask {
          do throws(SFTPFailure) { return (index, .success(try await body(part))) } catch {
            return (index, .failure(error))
          }
        }
      }
      for _ in 0..<Self.window { add() }
      var results = [Result<Answer, SFTPFailure>?](repeating: nil, count: parts.count)
      for await (index, result) in group {
        results[index] = result
        if case .success = result { add() } else { next = parts.count }
      }
      return results
    }
    var answers: [Answer] = []
    for case .failure(let error)? in results { throw error }
    for result in results { if let result { answers.append(try result.get()) } }
    return answers
  }
}
