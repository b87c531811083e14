internal import Glibc
package import SystemPackage

extension UnixSocket {
  /// Sends what there is room for now and returns how much that is; nil if there is none. EPIPE when
  /// the other end is gone, without a signal. `bytes` must not be empty.
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

  package struct Events: Sendable {
    /// Bytes, the end of the stream or an error.
    package var isReadable: Bool
    package var isWoken: Bool
  }

  /// Waits until there is something to read or `wakeup` was woken; with `untilWritable` also until there
  /// is room to send. -1 milliseconds is for ever.
  package static func wait(
    _ socket: OpenFile, orFor wakeup: Wakeup, untilWritable: Bool, milliseconds: Int32
  ) -> Events {
    let wanted = POLLIN | (untilWritable ? POLLOUT : 0)
    var entries = [
      pollfd(fd: socket.descriptor, events: Int16(wanted), revents: 0),
      pollfd(fd: wakeup.descriptor, events: Int16(POLLIN), revents: 0),
    ]
    _ = poll(&entries, 2, milliseconds)
    let ready = POLLIN | POLLHUP | POLLERR
    return Events(
      isReadable: Int32(entries[0].revents) & Int32(ready) != 0,
      isWoken: entries[1].revents != 0)
  }
}
