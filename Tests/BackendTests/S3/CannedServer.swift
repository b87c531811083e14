import Glibc
import Platform

/// A server on loopback that answers each request with the next of its answers, the last one again
/// and again, as bytes just as they are; an empty one is none: the connection stays open and
/// silent.
final class CannedServer: Sendable {
  private let socket: Int32
  let port: Int
  private let state: Lock<State>

  private struct State {
    var answers: [String]
    var requests: [String] = []
    /// Those that are there; a number that was closed may be another's.
    var open: Set<Int32> = []
    var connections = 0
  }

  /// That were ever made.
  var connections: Int { state.withLock { $0.connections } }

  /// Heads of requests, in their order.
  var requests: [String] { state.withLock { $0.requests } }

  /// `pause`: between the bytes of an answer, in microseconds.
  init(_ answers: [String], pause: UInt32 = 0) {
    state = Lock(State(answers: answers))
    socket = Glibc.socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
    var length = socklen_t(MemoryLayout<sockaddr_in>.size)
    let socket = socket
    port = withUnsafeMutablePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
        bind(socket, address, length)
        listen(socket, 64)
        getsockname(socket, address, &length)
      }
      return Int(UInt16(bigEndian: pointer.pointee.sin_port))
    }
    let (listener, state) = (socket, state)
    _ = startThread {
      while true {
        let connection = accept(listener, nil, nil)
        guard connection >= 0 else {
          close(listener)
          return
        }
        state.withLock {
          $0.open.insert(connection)
          $0.connections += 1
        }
        _ = startThread { Self.serve(connection, state, pause) }
      }
    }
  }

  deinit {
    // Its thread closes it.
    shutdown(socket, Int32(SHUT_RDWR))
    state.withLock { for connection in $0.open { shutdown(connection, Int32(SHUT_RDWR)) } }
  }

  static func answer(_ status: Int, _ body: String, headers: [String] = []) -> String {
    (["HTTP/1.1 \(status) X", "Content-Length: \(body.utf8.count)"] + headers + ["", body])
      .joined(separator: "\r\n")
  }

  private static func serve(_ connection: Int32, _ state: Lock<State>, _ pause: UInt32) {
    defer {
      state.withLock {
        $0.open.remove(connection)
        close(connection)
      }
    }
    var buffer = [UInt8](repeating: 0, count: 1 << 16)
    var text: [UInt8] = []
    while true {
      let count = read(connection, &buffer, buffer.count)
      guard count > 0 else { return }
      text += buffer[..<count]
      guard let head = Self.head(of: text) else { continue }
      text = []
      let answer = state.withLock { state in
        state.requests.append(head)
        return state.answers.count > 1 ? state.answers.removeFirst() : state.answers[0]
      }
      if answer.isEmpty { continue }
      let bytes = Array(answer.utf8)
      if pause > 0 {
        for byte in bytes {
          guard
            withUnsafeBytes(of: byte, { send(connection, $0.baseAddress, 1, Int32(MSG_NOSIGNAL)) })
              == 1
          else { return }
          usleep(pause)
        }
        continue
      }
      guard send(connection, bytes, bytes.count, Int32(MSG_NOSIGNAL)) == bytes.count,
        !answer.contains("Connection: close")
      else { return }
    }
  }

  /// Nil while the request is not here whole.
  private static func head(of bytes: [UInt8]) -> String? {
    let text = String(decoding: bytes, as: UTF8.self)
    let lines = text.split(separator: "\r\n", omittingEmptySubsequences: false)
    guard let end = lines.firstIndex(of: "") else { return nil }
    let head = lines[..<end].joined(separator: "\n")
    let length =
      lines[..<end].first { $0.lowercased().hasPrefix("content-length:") }
      .flatMap { Int($0.split(separator: " ").last ?? "") } ?? 0
    return bytes.count >= head.utf8.count + lines[..<end].count + 3 + length ? head : nil
  }
}
