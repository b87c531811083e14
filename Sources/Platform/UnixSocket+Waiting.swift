internal import Glibc
package import SystemPackage

extension UnixSocket {
  /// Sends what there is room for now and returns how much that is; nil if there is none. EPIPE
  /// when the other end is gone, without a signal. `bytes` must not be empty.
  package static func sendAvailable(_ bytes: ArraySlice<UInt8>, to socket: OpenFile) throws(Errno)
    -> Int?
  {
    do throws(Errno) {
      return try retrying {
        bytes.withUnsafeBytes { buffer in
          Glibc.send(
            socket.descriptor, buffer.baseAddress, buffer.count,
            Int32(MSG_NOSIGNAL) | Int32(MSG_DONTWAIT))
        }
      }
    } catch .wouldBlock {
      return nil
    }
  }

  /// Waits until there is room to send, the connection is broken, or the time is over.
  package static func waitUntilWritable(_ socket: OpenFile, milliseconds: Int32) {
    var entry = pollfd(fd: socket.descriptor, events: Int16(POLLOUT), revents: 0)
    _ = poll(&entry, 1, milliseconds)
  }

  /// Waits until there is something to read or the connection is over; false when the time is over.
  package static func waitUntilReadable(_ socket: OpenFile, milliseconds: Int32) -> Bool {
    var entry = pollfd(fd: socket.descriptor, events: Int16(POLLIN), revents: 0)
    return poll(&entry, 1, milliseconds) != 0
  }

  package enum Readiness: Sendable {
    /// Bytes to read, or the end of the stream.
    case input
    /// Room to send.
    case room
  }

  package struct Events: Sendable {
    /// There is something to read, or the connection is over.
    package var isReadable: Bool
    package var isWoken: Bool
  }

  /// Waits, however long, until the socket is ready, the connection is over or `wakeup` was woken.
  package static func wait(
    _ socket: OpenFile, orFor wakeup: Wakeup, for readiness: Readiness
  ) -> Events {
    var entries = [
      pollfd(
        fd: socket.descriptor, events: Int16(readiness == .input ? POLLIN : POLLOUT), revents: 0),
      pollfd(fd: wakeup.descriptor, events: Int16(POLLIN), revents: 0),
    ]
    _ = poll(&entries, 2, -1)
    return Events(
      isReadable: Int32(entries[0].revents) & Int32(POLLIN | POLLHUP | POLLERR) != 0,
      isWoken: entries[1].revents != 0)
  }
}
