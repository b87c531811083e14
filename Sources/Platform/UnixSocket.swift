internal import CLinux
internal import Glibc
package import SystemPackage

/// Stream sockets in the file system, blocking.
///
/// A socket's address holds 107 bytes; a longer path is reached through a descriptor of its
/// directory (`/proc/self/fd/N/NAME`).
package enum UnixSocket {
  /// Binds and listens; the socket file is `0600` from the start. EADDRINUSE if the path is there.
  package static func listen(directory: String, name: String) throws(Errno) -> OpenFile {
    let socket = OpenFile(
      owning: try retrying { Glibc.socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | cloexec, 0) })
    // The mode of a socket file is what the umask leaves of the descriptor's own mode.
    _ = try retrying { fchmod(socket.descriptor, 0o600) }
    try withAddress(directory, name) { address, length in
      bind(socket.descriptor, address, length)
    }
    _ = try retrying { Glibc.listen(socket.descriptor, 128) }
    return socket
  }

  package static func connect(directory: String, name: String) throws(Errno) -> OpenFile {
    let socket = OpenFile(
      owning: try retrying { Glibc.socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | cloexec, 0) })
    try withAddress(directory, name) { address, length in
      Glibc.connect(socket.descriptor, address, length)
    }
    return socket
  }

  package static func accept(_ listener: OpenFile) throws(Errno) -> OpenFile {
    let socket = OpenFile(owning: try retrying { Glibc.accept(listener.descriptor, nil, nil) })
    _ = try retrying { fcntl(socket.descriptor, F_SETFD, FD_CLOEXEC) }
    return socket
  }

  package struct Peer: Sendable {
    package let process: Int32
    package let user: UInt32
  }

  /// Who is at the other end, as it was when it connected.
  package static func peer(of socket: OpenFile) throws(Errno) -> Peer {
    var peer = linux_peer()
    var length = socklen_t(MemoryLayout<linux_peer>.size)
    _ = try retrying {
      getsockopt(socket.descriptor, SOL_SOCKET, SO_PEERCRED, &peer, &length)
    }
    return Peer(process: peer.pid, user: peer.uid)
  }

  /// At least one byte; an empty result is the end of the stream.
  package static func receive(_ socket: OpenFile, upTo count: Int) throws(Errno) -> [UInt8] {
    var failure: Errno?
    let bytes = [UInt8](unsafeUninitializedCapacity: count) { buffer, filled in
      let base = buffer.baseAddress
      do throws(Errno) {
        filled = try retrying { recv(socket.descriptor, base, count, 0) }
      } catch {
        failure = error
      }
    }
    if let failure { throw failure }
    return bytes
  }

  /// Sends all of it. EPIPE when the other end is gone, without a signal.
  package static func send(_ bytes: [UInt8], to socket: OpenFile) throws(Errno) {
    var done = 0
    while done < bytes.count {
      let start = done
      done += try retrying {
        bytes.withUnsafeBytes { buffer in
          Glibc.send(
            socket.descriptor, buffer.baseAddress.map { $0 + start }, buffer.count - start,
            Int32(MSG_NOSIGNAL))
        }
      }
    }
  }

  /// Ends both directions; a blocked receive or accept on it returns.
  package static func shutdown(_ socket: OpenFile) {
    _ = Glibc.shutdown(socket.descriptor, Int32(SHUT_RDWR))
  }

  /// Whether the other end has closed its side.
  package static func isClosedByPeer(_ socket: OpenFile) -> Bool {
    var entry = pollfd(fd: socket.descriptor, events: Int16(peerClosed), revents: 0)
    guard poll(&entry, 1, 0) > 0 else { return false }
    return Int32(entry.revents) & (peerClosed | Int32(POLLHUP) | Int32(POLLERR)) != 0
  }

  /// `POLLRDHUP` of poll(2), which needs `_GNU_SOURCE`.
  private static let peerClosed: Int32 = 0x2000

  private static let cloexec = Int32(SOCK_CLOEXEC.rawValue)

  private static func withAddress(
    _ directory: String, _ name: String,
    _ body: (UnsafePointer<sockaddr>, socklen_t) -> Int32
  ) throws(Errno) {
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    let room = MemoryLayout.size(ofValue: address.sun_path) - 1
    var path = "\(directory)/\(name)"
    var held: OpenFile?
    if path.utf8.count > room {
      let opened = try OpenFile.open(directory, flags: O_RDONLY | O_DIRECTORY)
      path = "/proc/self/fd/\(opened.descriptor)/\(name)"
      held = opened
    }
    guard path.utf8.count <= room else { throw .fileNameTooLong }
    withUnsafeMutableBytes(of: &address.sun_path) { buffer in
      buffer.copyBytes(from: Array(path.utf8))
    }
    let length = socklen_t(MemoryLayout<sockaddr_un>.size)
    let bound = address
    defer { withExtendedLifetime(held) {} }
    _ = try retrying {
      withUnsafePointer(to: bound) {
        $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { body($0, length) }
      }
    }
  }
}
