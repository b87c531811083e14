internal import CCurl
internal import Platform

/// Sends HTTP/1.1 requests over connections that it keeps and reuses.
///
/// libcurl does the work, on one thread that starts with the first request and sleeps while there
/// is none. Redirects are not followed, no request is repeated, and the environment's proxy
/// variables do not count: the caller decides all three.
///
/// Safe from any task.
package final class HTTPClient: Sendable {
  package struct Configuration: Sendable {
    /// A proxy as libcurl takes it: `http://USER:PASSWORD@HOST:PORT`, `socks5h://HOST`. Nil: none.
    package var proxy: String?
    /// Hosts that are reached without the proxy, in the form of `no_proxy`.
    package var proxyExceptions = ""
    /// A PEM file with the only certificates that are trusted. Nil: those of the system.
    package var authorities: String?
    package var connectTimeout = Duration.seconds(10)
    /// The maximum time without a byte in either direction.
    package var patience = Duration.seconds(30)
    /// The maximum number of transfers at a time; others wait for their turn.
    package var connections = 32

    package init() {}
  }

  private let loop: TransferLoop

  package init(_ configuration: Configuration = Configuration()) {
    loop = TransferLoop(configuration)
  }

  deinit { loop.stop() }

  /// Returns any complete response, whatever its status.
  ///
  /// Cancelling the task ends the transfer and throws `.cancelled`; the server may have done what
  /// was asked for.
  package func send(_ request: HTTPRequest) async throws(HTTPFailure) -> HTTPResponse {
    let loop = loop
    let transfer = HTTPTransfer(request)
    let result = await withTaskCancellationHandler {
      await withCheckedContinuation {
        (continuation: CheckedContinuation<Result<HTTPResponse, HTTPFailure>, Never>) in
        loop.add(transfer) { continuation.resume(returning: $0) }
      }
    } onCancel: {
      loop.cancel(transfer)
    }
    return try result.get()
  }
}
