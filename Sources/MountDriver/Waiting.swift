internal import Coordination
internal import FileSystem
internal import FuseKernel
internal import SystemPackage

extension FuseReply {
  /// Makes a call and answers with what it gives; while it needs bytes of a placeholder, the reply
  /// is put aside until they are there, and the call is made again.
  consuming func answer<Value: Sendable>(
    by call: @escaping @Sendable () throws(Errno) -> Step<Value>,
    on fileSystem: ContainerFileSystem,
    with respond: @escaping @Sendable (consuming FuseReply<Answer>, Value) -> Void,
    attempts: Int = 16, mayMakeRoom: Bool = true
  ) {
    let step: Step<Value>
    do throws(Errno) {
      step = try call()
    } catch {
      guard error == .noSpace, mayMakeRoom else {
        fail(error)
        return
      }
      afterRoom(0, on: fileSystem) { reply in
        reply.answer(
          by: call, on: fileSystem, with: respond, attempts: attempts, mayMakeRoom: false)
      }
      return
    }
    switch step {
    case .done(let value):
      respond(self, value)
    case .wait(let wait):
      // Each download makes the call go further; one that never does must not go on for ever.
      guard attempts > 0 else {
        fail(.ioError)
        return
      }
      let caller = Caller(self.caller)
      let parked = park()
      do throws(Errno) {
        let ticket = try fileSystem.fetch(wait, for: caller) { failure in
          parked.resume { reply in
            if let failure {
              reply.fail(failure)
            } else {
              reply.answer(
                by: call, on: fileSystem, with: respond, attempts: attempts - 1,
                mayMakeRoom: mayMakeRoom)
            }
          }
        }
        parked.onInterrupt { ticket.cancel() }
      } catch {
        parked.resume { $0.fail(error) }
      }
    }
  }

  /// The local disk is full: what can be evicted makes room, and then the call is made again.
  /// ENOSPC where nothing could be. The reply waits aside, since an eviction waits for the disk.
  /// `givenUp` is called where `retry` is not: before ENOSPC is answered, or after the program was
  /// interrupted.
  consuming func afterRoom(
    _ bytes: Int, on fileSystem: ContainerFileSystem,
    givenUp: @escaping @Sendable () -> Void = {},
    _ retry: @escaping @Sendable (consuming FuseReply<Answer>) -> Void
  ) {
    let parked = park()
    @Sendable func ended(_ isFreed: Bool) {
      if !isFreed { givenUp() }
      let isResumed = parked.resume { reply in
        if isFreed { retry(reply) } else { reply.fail(.noSpace) }
      }
      if isFreed, !isResumed { givenUp() }
    }
    if !fileSystem.coordinator.makeRoom(for: UInt64(max(0, bytes)), ended) { ended(false) }
  }
}
