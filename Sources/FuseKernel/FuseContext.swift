internal import CFuse3
internal import Platform
internal import Synchronization

/// What a callback reaches from a request: the handler and where replies are parked.
final class FuseContext: Sendable {
  let handler: any FuseHandler
  let lot = FuseParkingLot()
  /// WRITE requests that came, and those that the handler is done with, put aside or answered.
  let writesBegun = Atomic<UInt64>(0)
  let writesEnded = Atomic<UInt64>(0)

  /// What was agreed at INIT; nil before. Written once.
  let connection = Lock<FuseConnection?>(nil)

  init(_ handler: any FuseHandler) { self.handler = handler }

  /// What C knows a session by. `wishes` go into the INIT reply, and the handler is told when the
  /// kernel has taken it. The context must outlive it.
  func userData(_ wishes: FuseWishes) -> ubiquity_fuse_context {
    var data = ubiquity_fuse_context()
    data.handler = Unmanaged.passUnretained(self).toOpaque()
    data.`init`.wanted = wishes.encoded
    data.init_answered = { object in
      guard let object else { return }
      let context = Unmanaged<FuseContext>.fromOpaque(object).takeUnretainedValue()
      guard let connection = context.connection.withLock({ $0 }) else { return }
      context.handler.initialized(connection)
    }
    return data
  }

  /// What of its wishes a session was granted, from the moment on that the kernel has asked.
  static func grants(userData: UnsafeMutableRawPointer?) -> FuseGrants {
    guard let data = userData?.assumingMemoryBound(to: ubiquity_fuse_context.self) else {
      return FuseGrants(0)
    }
    return FuseGrants(data.pointee.`init`.granted)
  }

  static func of(_ request: OpaquePointer) -> FuseContext {
    of(userData: fuse_req_userdata(request))
  }

  static func of(userData: UnsafeMutableRawPointer?) -> FuseContext {
    guard let data = userData?.assumingMemoryBound(to: ubiquity_fuse_context.self),
      let object = data.pointee.handler
    else { preconditionFailure("a FUSE session without its context") }
    return Unmanaged<FuseContext>.fromOpaque(object).takeUnretainedValue()
  }

  /// Calls the handler without a retain and a release of an object that all threads share.
  static func call(_ request: OpaquePointer?, _ body: (any FuseHandler, OpaquePointer) -> Void) {
    guard let request,
      let data = fuse_req_userdata(request)?.assumingMemoryBound(to: ubiquity_fuse_context.self),
      let object = data.pointee.handler
    else { return }
    ubiquity_fuse_prove_number(data, request)
    Unmanaged<FuseContext>.fromOpaque(object)._withUnsafeGuaranteedRef { body($0.handler, request) }
  }

  /// `call` for a WRITE request, which is counted.
  static func callWrite(
    _ request: OpaquePointer?, _ body: (any FuseHandler, OpaquePointer) -> Void
  ) {
    guard let request,
      let data = fuse_req_userdata(request)?.assumingMemoryBound(to: ubiquity_fuse_context.self),
      let object = data.pointee.handler
    else { return }
    Unmanaged<FuseContext>.fromOpaque(object)._withUnsafeGuaranteedRef { context in
      context.writesBegun.add(1, ordering: .sequentiallyConsistent)
      body(context.handler, request)
      context.writesEnded.add(1, ordering: .sequentiallyConsistent)
    }
  }
}
