internal import Dispatch
internal import Glibc
internal import Platform
internal import SystemPackage

/// A connection that speaks SFTP: calls from any task, answered in any order.
///
/// One thread reads replies and ends with the session; a serial queue writes requests. A session
/// that failed once stays failed: every call of it, pending or new, throws the same failure.
final class SFTPSession: Sendable {
  private typealias Answer = Result<SFTPReply, SFTPFailure>

  private struct State {
    var pending: [UInt32: CheckedContinuation<Answer, Never>] = [:]
    var next: UInt32 = 0
    var failure: SFTPFailure?
    /// When bytes came or went last, in monotonic nanoseconds.
    var lastProgress: UInt64 = 0
  }

  private let process: SSHProcess
  private let patience: Duration
  private let state = Lock(State())
  private let writing = DispatchQueue(label: "ubiquityfs.sftp.write", qos: .utility)
  /// Tells the reading thread that a reply is awaited, so that it counts time.
  private let wakeup: Wakeup
  /// The extensions of the server, by name, with their data.
  let extensions: [String: String]

  /// More than any reply needs: OpenSSH sends at most 256 KiB.
  private static let longestPacket = (256 << 10) + 1024
  private static let protocolVersion: UInt32 = 3

  /// Starts `ssh` and waits for the server's greeting. Blocks for as long as connecting takes:
  /// not for the thread of a task. `patience`: the maximum time without a byte.
  init(
    _ words: [String], environment: [String: String], patience: Duration
  ) throws(SFTPFailure) {
    do throws(Errno) {
      wakeup = try Wakeup()
      process = try SSHProcess(words, environment: environment)
    } catch {
      throw .notStarted("\(words[0]): \(error)")
    }
    self.patience = patience
    do throws(SFTPFailure) {
      var hello = PacketWriter()
      hello.byte(SFTPType.start)
      hello.word(Self.protocolVersion)
      try Self.write(hello.bytes, to: process) {}
      extensions = try Self.greeting(try Self.packet(process.descriptor, patience: patience))
    } catch {
      let text = process.end()
      throw error == .ended("") ? .ended(text) : error
    }
    _ = startThread { [self] in read() }
  }

  /// Ends `ssh`; calls fail with `.ended`.
  func stop() { process.stop() }

  var isAlive: Bool { state.withLock { $0.failure == nil } }

  private static func greeting(_ packet: [UInt8]) throws(SFTPFailure) -> [String: String] {
    var reader = PacketReader(packet[...])
    guard try reader.byte() == SFTPType.version, try reader.word() >= protocolVersion else {
      throw .malformed
    }
    var extensions: [String: String] = [:]
    while !reader.isAtEnd, extensions.count < 100 {
      let name = try reader.text()
      extensions[name] = try reader.text()
    }
    return extensions
  }

  // MARK: Calling

  /// Sends a request, whose body `build` writes after its number, and waits for the reply.
  ///
  /// Cancelling the task does not end the wait: the caller has to close what the reply opens.
  func call(
    _ type: UInt8, _ build: (inout PacketWriter) -> Void
  ) async throws(SFTPFailure) -> SFTPReply {
    var request = PacketWriter()
    let number = state.withLock { state in
      state.next &+= 1
      return state.next
    }
    request.byte(type)
    request.word(number)
    build(&request)
    let bytes = request.bytes
    let answer = await withCheckedContinuation {
      (continuation: CheckedContinuation<Answer, Never>) in
      let failure = state.withLock { state -> SFTPFailure? in
        if let failure = state.failure { return failure }
        if state.pending.isEmpty { state.lastProgress = monotonicNanoseconds() }
        state.pending[number] = continuation
        return nil
      }
      if let failure { return continuation.resume(returning: .failure(failure)) }
      wakeup.wake()
      writing.async { [self] in send(bytes) }
    }
    return try answer.get()
  }

  private func send(_ bytes: [UInt8]) {
    do throws(SFTPFailure) {
      try Self.write(bytes, to: process) { [self] in progressed() }
    } catch {
      // The reading thread fails all calls.
      process.stop()
    }
  }

  private func progressed() {
    state.withLock { $0.lastProgress = monotonicNanoseconds() }
  }

  private static func write(
    _ body: [UInt8], to process: SSHProcess, progressed: () -> Void
  ) throws(SFTPFailure) {
    var packet = PacketWriter()
    packet.data(body)
    var rest = packet.bytes[...]
    while !rest.isEmpty {
      let count = rest.withUnsafeBytes {
        Glibc.send(
          process.descriptor, $0.baseAddress, min($0.count, 64 << 10), Int32(MSG_NOSIGNAL))
      }
      if count < 0 {
        guard errno == EINTR else { throw .ended("") }
        continue
      }
      rest = rest.dropFirst(count)
      progressed()
    }
  }

  // MARK: Reading

  private func read() {
    var failure = SFTPFailure.ended("")
    do throws(SFTPFailure) {
      while true {
        try waitForPacket()
        let packet = try Self.packet(process.descriptor, patience: patience)
        progressed()
        var reader = PacketReader(packet[...])
        let (type, number) = (try reader.byte(), try reader.word())
        let reply = try SFTPReply(type, &reader)
        // A number that nobody asked with is no reason to fail.
        state.withLock { $0.pending.removeValue(forKey: number) }?
          .resume(returning: .success(reply))
      }
    } catch {
      failure = error
    }
    let text = process.end()
    if failure == .ended("") { failure = .ended(text) }
    let pending = state.withLock { state in
      state.failure = failure
      defer { state.pending = [:] }
      return state.pending.values
    }
    for continuation in pending { continuation.resume(returning: .failure(failure)) }
  }

  /// Waits without a limit while no reply is awaited.
  private func waitForPacket() throws(SFTPFailure) {
    while true {
      let silence: Duration? = state.withLock { state in
        guard !state.pending.isEmpty else { return nil }
        let now = monotonicNanoseconds()
        return .nanoseconds(Int64(clamping: now - min(state.lastProgress, now)))
      }
      if let silence, silence >= patience { throw .silent }
      let limit = silence.map { Self.milliseconds(patience - $0) } ?? -1
      var entries = [
        pollfd(fd: process.descriptor, events: Int16(POLLIN), revents: 0),
        pollfd(fd: wakeup.descriptor, events: Int16(POLLIN), revents: 0),
      ]
      guard poll(&entries, 2, limit) >= 0 || errno == EINTR else { throw .ended("") }
      if entries[1].revents != 0 { wakeup.reset() }
      if entries[0].revents != 0 { return }
    }
  }

  private static func milliseconds(_ duration: Duration) -> Int32 {
    let (seconds, attoseconds) = duration.components
    return Int32(clamping: seconds * 1000 + attoseconds / 1_000_000_000_000_000 + 1)
  }

  /// One packet without its length. All of it has to come within twice the patience.
  private static func packet(
    _ descriptor: Int32, patience: Duration
  ) throws(SFTPFailure) -> [UInt8] {
    let deadline = ContinuousClock.now + patience * 2
    let head = try bytes(4, descriptor, before: deadline)
    let length = head.reduce(0) { $0 << 8 | Int($1) }
    guard (1...longestPacket).contains(length) else { throw .malformed }
    return try bytes(length, descriptor, before: deadline)
  }

  private static func bytes(
    _ count: Int, _ descriptor: Int32, before deadline: ContinuousClock.Instant
  ) throws(SFTPFailure) -> [UInt8] {
    var result = [UInt8](repeating: 0, count: count)
    var done = 0
    while done < count {
      let left = deadline - .now
      guard left > .zero else { throw .silent }
      var entry = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
      guard poll(&entry, 1, milliseconds(left)) > 0 else { continue }
      let taken = result.withUnsafeMutableBytes {
        recv(descriptor, $0.baseAddress.map { $0 + done }, count - done, 0)
      }
      if taken < 0, errno == EINTR { continue }
      guard taken > 0 else { throw .ended("") }
      done += taken
    }
    return result
  }
}
