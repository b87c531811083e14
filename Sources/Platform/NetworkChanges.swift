internal import CLinux
internal import Dispatch
internal import Glibc

/// Tells when networks come and go: what the kernel says of links, addresses and routes. Sources:
/// rtnetlink(7), netlink(7).
package final class NetworkChanges: @unchecked Sendable {
  package enum Change: Sendable {
    /// Something came, so that what was out of reach may not be any more.
    case came
    /// A link or the way out was lost, and nothing came.
    case went
  }

  // Unchecked: what changes is used on `queue` only.
  private let queue = DispatchQueue(label: "ubiquityfs.network")
  private let source: any DispatchSourceRead
  private var pending: Change?

  /// A network comes in many steps: they are told as one.
  private static let gathering = DispatchTimeInterval.milliseconds(200)

  /// Nil where the kernel does not tell. `tell` is called on a queue of its own until `stop`.
  package init?(_ tell: @escaping @Sendable (Change) -> Void) {
    let descriptor = linux_network_changes()
    guard descriptor >= 0 else { return nil }
    source = DispatchSource.makeReadSource(fileDescriptor: descriptor, queue: queue)
    source.setCancelHandler { close(descriptor) }
    source.setEventHandler { [weak self] in
      guard let self, let change = Self.drain(descriptor) else { return }
      guard pending == nil else {
        if change == .came { pending = .came }
        return
      }
      pending = change
      queue.asyncAfter(deadline: .now() + Self.gathering) { [weak self] in
        guard let self, let change = pending else { return }
        pending = nil
        tell(change)
      }
    }
    source.activate()
  }

  deinit { source.cancel() }

  package func stop() { source.cancel() }

  private static func drain(_ descriptor: Int32) -> Change? {
    var result: Change?
    withUnsafeTemporaryAllocation(byteCount: 32_768, alignment: 8) { buffer in
      while true {
        let count = recv(descriptor, buffer.baseAddress, buffer.count, 0)
        if count < 0 {
          if errno == EINTR { continue }
          // Some were lost: anything may have happened.
          if errno == ENOBUFS { result = .came }
          return
        }
        guard count > 0 else { return }
        let change = Self.change(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
        if result != .came { result = change ?? result }
      }
    }
    return result
  }

  private enum Message {
    static let newLink: UInt16 = 16
    static let newAddress: UInt16 = 20
    static let newRoute: UInt16 = 24
    static let removedRoute: UInt16 = 25
    static let header = 16
  }

  /// Of a datagram of netlink messages; nil: nothing of interest.
  package static func change(_ bytes: UnsafeRawBufferPointer) -> Change? {
    var result: Change?
    var offset = 0
    while offset + Message.header <= bytes.count {
      let length = Int(bytes.loadUnaligned(fromByteOffset: offset, as: UInt32.self))
      let type = bytes.loadUnaligned(fromByteOffset: offset + 4, as: UInt16.self)
      guard length >= Message.header, offset + length <= bytes.count else { return result }
      let body = offset + Message.header
      switch type {
      case Message.newAddress, Message.newRoute: return .came
      case Message.newLink where length >= Message.header + 12:
        let flags = bytes.loadUnaligned(fromByteOffset: body + 8, as: UInt32.self)
        // IFF_RUNNING: it has a carrier.
        if flags & 0x40 != 0 { return .came }
        result = .went
      case Message.removedRoute where length >= Message.header + 2:
        // Of the destination no bits count: the way to everywhere.
        if bytes[body + 1] == 0 { result = .went }
      default: break
      }
      offset += (length + 3) & ~3
    }
    return result
  }
}
