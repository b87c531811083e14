package import ControlProtocol
internal import FileSystem
internal import Glibc
package import Logging
package import Platform
internal import SystemPackage

/// A daemon gives its mounts to another program, which goes on with them: a new version of itself,
/// or one that a service manager started.
///
/// The order: the other program has the lock and the mounts; this one stops serving; it says so and
/// ends, as if it had been killed; the other one waits for its end and opens everything. Until this
/// daemon has said so, the other program holds nothing that acts if it dies. From then on its own
/// watchdog does.
package final class Handover: Sendable {
  private let service: DaemonService
  private let watchdog: ConnectionWatchdog
  private let lock: OpenFile
  private let mayGiveWay: Bool
  private let logger: Logger

  /// `mayGiveWay`: to one that does not insist. For a daemon that nobody started.
  package init(
    _ service: DaemonService, _ watchdog: ConnectionWatchdog, lock: OpenFile, mayGiveWay: Bool,
    logger: Logger
  ) {
    self.service = service
    self.watchdog = watchdog
    self.lock = lock
    self.mayGiveWay = mayGiveWay
    self.logger = logger
  }

  // MARK: The daemon that gives

  /// Ends the process, or throws and changes nothing.
  func run(
    _ request: HandOverRequest, _ connection: ClientConnection
  ) throws(ControlError) -> HandOverAnswer {
    guard request.isForced || mayGiveWay else {
      throw ControlError(
        .busy, "another daemon already serves this state directory (process \(getpid()))")
    }
    guard request.record == MountRecord.version else {
      throw ControlError(
        .failed,
        "version \(request.version) cannot take over from the daemon, which has version "
          + "\(Product.version); stop the daemon (process \(getpid())) with SIGTERM and mount again"
      )
    }
    return try service.turn.withLock { _ throws(ControlError) in
      let mounts = try keptMounts()
      do throws(Errno) {
        try give(mounts, connection.socket)
      } catch {
        throw ControlError(.failed, "cannot hand over the mounts: \(error)")
      }
      end(connection.socket)
    }
  }

  private func keptMounts() throws(ControlError) -> [KeptMount] {
    let (mounts, others) = watchdog.kept
    guard let first = others.first else { return mounts }
    throw ControlError(
      .busy,
      "the mount at \"\(first)\" cannot continue with another daemon: the kernel is older than "
        + "Linux 6.16, or \(Keeper.variable) is off; unmount it first")
  }

  /// Ends the process as if it had been killed, but with everything durable and nothing under way,
  /// so that the watchdog starts the program anew: as it is on the disk now. Returns where that
  /// cannot be.
  package func replaceItself() {
    service.turn.withLock { _ in
      do throws(ControlError) {
        guard try !keptMounts().isEmpty, watchdog.keeper != nil else {
          return logger.notice("no mount can continue with another daemon")
        }
      } catch {
        return logger.error("\(error.message)")
      }
      logger.notice("handing over to another daemon")
      service.quiesce()
      _exit(0)
    }
  }

  /// Returns when the other program has everything.
  private func give(_ mounts: [KeptMount], _ socket: OpenFile) throws(Errno) {
    let line = try? Message.reply(id: Self.identity, HandOverAnswer(pid: getpid()))
    guard let line else { throw .invalidArgument }
    try UnixSocket.send(line, to: socket)
    try DescriptorChannel.send(lock: lock, mounts, to: socket)
    try DescriptorChannel.receiveEnd(from: socket)
  }

  private func end(_ socket: OpenFile) -> Never {
    logger.notice("handing over to another daemon")
    service.quiesce()
    do throws(Errno) {
      // If the other program is gone by now, the watchdog starts one when this process ends.
      guard !UnixSocket.isClosedByPeer(socket) else { throw .connectionReset }
      watchdog.end()
      try DescriptorChannel.sendEnd(to: socket)
    } catch {
      logger.error("the other daemon ended during the handover: \(error)")
    }
    _exit(0)
  }

  // MARK: The program that takes

  /// In milliseconds. Something else may be mounted or unmounted first.
  private static let patience: Int32 = 60_000
  private static let identity = MessageID.number(1)

  enum Outcome {
    /// Nobody answers there.
    case noDaemon
    /// The daemon does not give way to one that does not insist.
    case refused
    case taken(Succession)
  }

  /// Takes over from the daemon of the directory, or takes the lock where there is none. One that
  /// begins or ends just now has the lock and does not answer yet, or any more.
  static func begin(
    _ state: StateDirectory, isForced: Bool
  ) throws(ControlError) -> Beginning {
    let deadline = monotonicNanoseconds() + 10_000_000_000
    while true {
      let isLast: Bool
      switch try request(state, isForced: isForced) {
      case .taken(let succession): return .succession(succession)
      case .refused: isLast = true
      case .noDaemon: isLast = monotonicNanoseconds() > deadline
      }
      do throws(ControlError) { return .lock(try state.lock()) } catch {
        guard error.status == .busy, !isLast else { throw error }
      }
      usleep(50_000)
    }
  }

  enum Beginning {
    case lock(OpenFile)
    case succession(Succession)
  }

  private static func request(
    _ state: StateDirectory, isForced: Bool
  ) throws(ControlError) -> Outcome {
    // One that was killed may have the socket for good.
    if let complaint = ServedMounts.release(state: state.path).complaint {
      throw ControlError(.failed, complaint)
    }
    guard
      let socket = try? UnixSocket.connect(
        directory: state.path, name: DaemonProcess.socketName)
    else { return .noDaemon }
    let answer: HandOverAnswer
    do {
      let request = HandOverRequest(
        record: MountRecord.version, version: Product.version, isForced: isForced)
      try UnixSocket.send(
        Message.request(id: identity, method: Methods.HandOver.name, request), to: socket)
      guard UnixSocket.waitUntilReadable(socket, milliseconds: patience) else {
        throw ControlError(.timedOut, "the daemon does not answer; stop it with SIGTERM")
      }
      answer = try self.answer(from: socket)
    } catch let error as ControlError {
      guard isForced else { return .refused }
      throw error
    } catch {
      // It ended.
      return .noDaemon
    }
    do throws(Errno) {
      let succession = try DescriptorChannel.receive(from: socket, predecessor: answer.pid)
      try DescriptorChannel.sendEnd(to: socket)
      try DescriptorChannel.receiveEnd(from: socket)
      return .taken(succession)
    } catch {
      throw ControlError(.failed, "the daemon did not hand over its mounts: \(error)")
    }
  }

  /// Byte for byte: what follows the line comes with descriptors.
  private static func answer(from socket: OpenFile) throws -> HandOverAnswer {
    var line: [UInt8] = []
    while line.last != 0x0A {
      guard line.count < LineBuffer.maximumLength else { throw Errno.messageTooLong }
      let piece = try UnixSocket.receive(socket, upTo: 1)
      guard !piece.isEmpty else { throw Errno.connectionReset }
      line += piece
    }
    switch try Message.received(HandOverAnswer.self, in: line) {
    case .result(let answer): return answer
    case .failure(let error): throw error.controlError
    case .notification: throw Errno.badMessage
    }
  }
}
