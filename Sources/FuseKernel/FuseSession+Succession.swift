internal import CFuse3
internal import Glibc
package import Platform
internal import SystemPackage

/// What was said when a connection began: the kernel's INIT and the answer to it. A daemon that
/// takes the connection over has to mean the same.
package struct FuseHandshake: Hashable, Sendable {
  package let request: [UInt8]
  package let reply: [UInt8]

  package init(request: [UInt8], reply: [UInt8]) {
    self.request = request
    self.reply = reply
  }
}

extension FuseSession {
  /// Nil where no other daemon could go on with this connection: the kernel does not send requests
  /// again (Linux 6.9) or does not forget names on demand (Linux 6.16), or libfuse's requests have
  /// no number that is known. To be asked after the first request was answered.
  package var handshake: FuseHandshake? {
    let start = data.pointee.`init`
    guard start.is_answered != 0, start.offered & ubiquity_fuse_has_resend != 0,
      (context.connection.withLock { $0?.protocolMinor } ?? 0) >= ubiquity_fuse_epoch_minor,
      data.pointee.knows_numbers != 0, start.request_length > 0
    else { return nil }
    let request = withUnsafeBytes(of: start.request) {
      Array($0.prefix(Int(start.request_length)))
    }
    let reply = withUnsafeBytes(of: start.reply) { Array($0.prefix(Int(start.reply_length))) }
    return FuseHandshake(request: request, reply: reply)
  }

  /// A further descriptor of the device, which keeps the connection when this process ends.
  package func duplicateDevice() -> OpenFile? {
    guard let device = descriptor.withLock({ $0 }) else { return nil }
    let copy = fcntl(device, F_DUPFD_CLOEXEC, 3)
    return copy >= 0 ? OpenFile(owning: copy) : nil
  }

  /// Goes on with a connection that another daemon began, in place of `mount`; `resume` follows.
  /// After a failure of either the session is of no use.
  package func adopt(_ device: OpenFile) throws(FuseStartFailure) {
    func fail(_ code: Errno) -> FuseStartFailure { failed(code) }
    // The session closes the one that it gets.
    let copy = fcntl(device.descriptor, F_DUPFD_CLOEXEC, 3)
    guard copy >= 0 else { throw fail(Errno(rawValue: errno)) }
    let code = ubiquity_fuse_install(session, copy)
    guard code == 0 else {
      close(copy)
      throw fail(Errno(rawValue: -code))
    }
    isAdopted = true
    began()
  }

  /// After `resume`, in place of `runResent`.
  package func abandon() { _ = failed(.ioError) }

  private func failed(_ code: Errno, _ detail: String = "") -> FuseStartFailure {
    descriptor.withLock { $0 = nil }
    backingFiles?.end()
    fuse_session_destroy(session)
    ended.open()
    return FuseStartFailure(detail: detail, errno: code)
  }

  /// The handler hears what was agreed, as when a connection begins. The kernel hears nothing but
  /// that it is to ask again for every name: what it was to be told of may have been lost. Throws
  /// `notSupported` where this program would have begun the connection in another way.
  package func resume(_ handshake: FuseHandshake) throws(FuseStartFailure) {
    guard replay(handshake) else {
      throw failed(.notSupported, "the earlier daemon negotiated other options with the kernel")
    }
    let device = descriptor.withLock { $0 }
    let code = device.map { ubiquity_fuse_begin_epoch($0) } ?? -ENODEV
    guard code == 0 else { throw failed(Errno(rawValue: -code)) }
  }

  /// libfuse learns what was agreed; the kernel hears nothing.
  private func replay(_ handshake: FuseHandshake) -> Bool {
    guard handshake.reply.count <= MemoryLayout<ubiquity_fuse_init_out>.size,
      handshake.request.count >= MemoryLayout<fuse_in_header>.size,
      handshake.request.count <= Int(UBIQUITY_FUSE_INIT_LIMIT)
    else { return false }
    withUnsafeMutableBytes(of: &data.pointee.`init`.reply) { $0.copyBytes(from: handshake.reply) }
    data.pointee.`init`.reply_length = UInt32(handshake.reply.count)
    data.pointee.`init`.is_replayed = 1
    data.pointee.knows_numbers = 1
    var request = handshake.request
    request.withUnsafeMutableBytes { bytes in
      ubiquity_fuse_init_asked(&data.pointee.`init`, bytes.baseAddress, bytes.count)
      var buffer = fuse_buf()
      buffer.mem = bytes.baseAddress
      buffer.size = bytes.count
      fuse_session_process_buf(session, &buffer)
    }
    return data.pointee.`init`.is_answered != 0 && data.pointee.`init`.differs == 0
  }

  /// In place of `run`, after `resume`. The kernel first sends again what the other daemon had not
  /// answered.
  ///
  /// The kernel sends again every request that a daemon has read and not answered. If this daemon
  /// read requests before, it would get them twice, and do them twice.
  package func runResent() throws(FuseStartFailure) {
    let device = descriptor.withLock { $0 }
    let code = device.map { ubiquity_fuse_resend($0) } ?? -ENODEV
    guard code == 0 else {
      throw failed(Errno(rawValue: -code), "the kernel cannot send unanswered requests again")
    }
    run()
  }

  /// Reads no more requests and answers none of those that wait; returns when none is being
  /// handled. The connection stays, for another daemon. The session is of no use after it.
  package func quiesce() {
    // While requests are served: a notification may wait for a lock that a program holds until it
    // has an answer. What is not sent the next daemon makes up for.
    _ = notifier.stop(milliseconds: 500)
    isHandedOver.store(true, ordering: .sequentiallyConsistent)
    context.lot.freeze()
    isAborted.store(true, ordering: .sequentiallyConsistent)
    loop.withLock { $0 }?.stop()
    // It may have been unmounted just now.
    while !quiet.wait(milliseconds: 20), !hasEnded {}
  }
}
