internal import CFuse3
internal import Glibc
internal import Platform
internal import Synchronization
internal import SystemPackage

/// How requests come to a session.
package enum FuseTransport: Hashable, Sendable {
  case ioUring
  /// By reads and writes of `/dev/fuse`; why.
  case device(reason: String)
}

/// Chooses a session's transport: io_uring where it is wanted and there, else the device. States,
/// in order: undecided; a ring prepared, before INIT is answered; decided.
final class FuseTransportChoice: Sendable {
  private struct State {
    var uring: FuseUring?
    var isBegun = false
    var reason = "not mounted yet"
  }

  private static let switchPath = "/sys/module/fuse/parameters/enable_uring"

  private let state = Lock(State())
  private let isRing = Atomic<Bool>(false)

  /// Whether replies may have to go into a ring.
  var usesRing: Bool { isRing.load(ordering: .relaxed) }

  var current: FuseTransport {
    state.withLock { state in
      guard state.isBegun, let uring = state.uring else { return .device(reason: state.reason) }
      if let failure = uring.failure {
        return .device(reason: "the kernel did not take the ring: \(failure)")
      }
      return .ioUring
    }
  }

  /// Before the loop. What the kernel would refuse is not asked for: once INIT is answered with
  /// io_uring, the mount stands still until the ring is there.
  func prepare(
    _ session: OpaquePointer, _ data: UnsafeMutablePointer<ubiquity_fuse_context>, isWanted: Bool
  ) {
    func decline(_ reason: String) { state.withLock { $0.reason = reason } }
    guard isWanted else { return decline("switched off by the mount's options") }
    guard let setting = Files.smallText(Self.switchPath) else {
      return decline("the kernel has no FUSE over io_uring (Linux 6.14)")
    }
    guard setting == "Y" else {
      return decline("the fuse module's parameter enable_uring is off")
    }
    guard let processors = Processors.ofSystem(),
      processors.possible <= FuseUring.mostProcessors
    else {
      return decline("this machine may have more than \(FuseUring.mostProcessors) processors")
    }
    let uring: FuseUring
    do throws(Errno) {
      uring = try FuseUring(
        session: session, payloadSize: Int(FuseCapabilities.maximumWrite), processors: processors)
    } catch {
      return decline("io_uring cannot be used: \(error)")
    }
    state.withLock { $0.uring = uring }
    data.pointee.`init`.wanted.flags |= ubiquity_fuse_over_io_uring
    data.pointee.send = { transport, vector, count in
      guard let transport, let vector else { return -1 }
      let reply = UnsafeBufferPointer(start: vector, count: Int(count))
      return Unmanaged<FuseUring>.fromOpaque(transport)._withUnsafeGuaranteedRef {
        $0.send(reply) ?? -1
      }
    }
    data.pointee.transport = Unmanaged.passUnretained(uring).toOpaque()
  }

  /// INIT is answered.
  func decide(isGranted: Bool) {
    let uring = state.withLock { state in
      state.isBegun = state.uring != nil && isGranted
      if state.uring != nil && !state.isBegun {
        state.reason = "the kernel does not offer FUSE over io_uring"
      }
      return state.isBegun ? state.uring : nil
    }
    guard let uring else { return }
    isRing.store(true, ordering: .relaxed)
    uring.begin()
  }

  /// After the loop: no request is handled any more when this returns.
  func stop() { state.withLock { $0.uring }?.stop() }

  /// After the session: nothing replies any more. Gives back the ring's memory and descriptors,
  /// which a mount that is kept after its end would hold.
  func release(_ data: UnsafeMutablePointer<ubiquity_fuse_context>) {
    data.pointee.transport = nil
    let uring = state.withLock { state in
      state.reason = "unmounted"
      return state.uring.take()
    }
    withExtendedLifetime(uring) {}
  }
}
