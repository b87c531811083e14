internal import Coordination
internal import FileSystem
internal import FuseKernel
internal import SystemPackage

extension FuseReply {
  /// Makes a call and answers with what it gives; while it needs bytes of a placeholder, the reply is
  /// put aside until they are there, and the call is made again.
  consuming func answer<Value: Sendable>(
    by call: @escaping @Sendable () throws(Errno) -> Step<Value>,
    on fileSystem: ContainerFileSystem,
    with respond: @escaping @Sendable (consuming FuseReply<Answer>, Value) -> Void,
    attempts: Int = 16
  ) {
    let step: Step<Value>
    do throws(Errno) {
      step = try call()
    } catch {
      fail(error)
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
      let parked = park()
      do throws(Errno) {
        let ticket = try fileSystem.fetch(wait) { failure in
          parked.resume { reply in
            if let failure {
              reply.fail(failure)
            } else {
              reply.answer(by: call, on: fileSystem, with: respond, attempts: attempts - 1)
            }
          }
        }
        parked.onInterrupt { ticket.cancel() }
      } catch {
        parked.resume { $0.fail(error) }
      }
    }
  }
}
