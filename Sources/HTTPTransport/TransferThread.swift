internal import CCurl
internal import Platform

/// The transfers of one thread: those that run in libcurl, and those that wait for their turn.
///
/// Belongs to that thread; nothing else may touch it.
final class TransferThread: @unchecked Sendable {
  private struct Entry {
    let transfer: HTTPTransfer
    let end: TransferLoop.Ending
  }

  private let multi: UnsafeMutableRawPointer
  private let configuration: HTTPClient.Configuration
  private var running: [UnsafeMutableRawPointer: Entry] = [:]
  private var waiting: [Entry] = []
  /// Handles that ended their transfer. They keep TLS sessions, so the last one is taken first.
  private var idle: [UnsafeMutableRawPointer] = []

  /// A handle may keep its buffers.
  private static let mostIdle = 8

  init(_ multi: UnsafeMutableRawPointer, _ configuration: HTTPClient.Configuration) {
    self.multi = multi
    self.configuration = configuration
  }

  func add(_ transfer: HTTPTransfer, _ end: @escaping TransferLoop.Ending) {
    waiting.append(Entry(transfer: transfer, end: end))
  }

  /// Starts, moves and ends transfers, then waits until something happens.
  func step() {
    startWaiting()
    ccurl_perform(multi)
    endFinished()
    endOverdue()
    if running.count < configuration.connections, !waiting.isEmpty { return }
    // Without a transfer, only `ccurl_wake` ends the wait.
    ccurl_poll(multi, running.isEmpty ? Int32.max : checkInterval)
  }

  func end() {
    for entry in waiting { entry.end(.failure(.cancelled)) }
    waiting = []
    for easy in Array(running.keys) { finish(easy, .failure(.cancelled)) }
    for easy in idle { ccurl_easy_free(easy) }
    idle = []
    ccurl_multi_free(multi)
  }

  /// Milliseconds between two checks of deadlines.
  private var checkInterval: Int32 {
    let patience = configuration.patience.components
    guard patience.seconds < 4 else { return 1000 }
    let milliseconds = patience.seconds * 1000 + patience.attoseconds / 1_000_000_000_000_000
    return Int32(max(20, milliseconds / 4))
  }

  private func startWaiting() {
    var started = 0
    for entry in waiting {
      guard running.count < configuration.connections else { break }
      started += 1
      if entry.transfer.isCancelled.load(ordering: .relaxed) {
        entry.end(.failure(.cancelled))
        continue
      }
      guard let easy = idle.popLast() ?? ccurl_easy_new() else {
        entry.end(.failure(.impossible("libcurl is out of memory")))
        continue
      }
      do throws(HTTPFailure) {
        try entry.transfer.prepare(easy, configuration)
      } catch {
        recycle(easy, entry.transfer)
        entry.end(.failure(error))
        continue
      }
      running[easy] = entry
      let code = ccurl_add(multi, easy)
      if code != CURLM_OK { finish(easy, .failure(.impossible("libcurl error \(code.rawValue)"))) }
    }
    waiting.removeFirst(started)
    waiting.removeAll { entry in
      guard entry.transfer.isCancelled.load(ordering: .relaxed) else { return false }
      entry.end(.failure(.cancelled))
      return true
    }
  }

  private func endFinished() {
    var code = CURLE_OK
    while let easy = ccurl_next_ended(multi, &code) {
      guard let entry = running[easy] else { continue }
      finish(easy, entry.transfer.result(code))
    }
  }

  private func endOverdue() {
    let now = monotonicNanoseconds()
    for (easy, entry) in running {
      if entry.transfer.isCancelled.load(ordering: .relaxed) {
        finish(easy, .failure(.cancelled))
      } else if let failure = entry.transfer.overdue(at: now) {
        finish(easy, .failure(failure))
      }
    }
  }

  private func finish(
    _ easy: UnsafeMutableRawPointer, _ result: Result<HTTPResponse, HTTPFailure>
  ) {
    guard let entry = running.removeValue(forKey: easy) else { return }
    // A transfer that has not ended closes its connection here.
    ccurl_remove(multi, easy)
    recycle(easy, entry.transfer)
    entry.end(result)
  }

  private func recycle(_ easy: UnsafeMutableRawPointer, _ transfer: HTTPTransfer) {
    transfer.release()
    if idle.count < Self.mostIdle { idle.append(easy) } else { ccurl_easy_free(easy) }
  }
}
