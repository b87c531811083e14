internal import CLinux
internal import Glibc
package import SystemPackage

/// Hands what a successor needs from one daemon to another, over a socket between them.
package enum DescriptorChannel {
  /// Sends the lock and the mounts.
  package static func send(
    lock: OpenFile, _ mounts: [KeptMount], to socket: OpenFile
  ) throws(Errno) {
    try send(linux_watchdog_keep, linux_kept_lock, 0, lock, to: socket)
    for (index, mount) in mounts.enumerated() {
      let key = UInt64(index + 1)
      try send(linux_watchdog_keep, linux_kept_device, key, mount.device, to: socket)
      try send(linux_watchdog_keep, linux_kept_record, key, mount.record, to: socket)
    }
    try sendEnd(to: socket)
  }

  /// Says that a part is over: all is sent, or the sender ends now.
  package static func sendEnd(to socket: OpenFile) throws(Errno) {
    try send(linux_watchdog_end, linux_kept_lock, 0, nil, to: socket)
  }

  private static func send<Kind: BinaryInteger, Role: BinaryInteger>(
    _ kind: Kind, _ role: Role, _ key: UInt64, _ file: OpenFile?, to socket: OpenFile
  ) throws(Errno) {
    let message = linux_watchdog_message(
      kind: UInt32(kind), minor: UInt32(role), key: key, place: 0)
    let code = linux_tell_watchdog(socket.descriptor, message, file?.descriptor ?? -1)
    guard code == 0 else { throw Errno(rawValue: -code) }
  }

  /// What `send` sent. Throws `badMessage` for anything else.
  package static func receive(
    from socket: OpenFile, predecessor: Int32
  ) throws(Errno) -> Succession {
    var lock: OpenFile?
    var devices: [UInt64: OpenFile] = [:]
    var records: [UInt64: OpenFile] = [:]
    while let (message, file) = try receiveOne(from: socket) {
      switch Int(message.minor) {
      case Int(linux_kept_lock): lock = file
      case Int(linux_kept_device): devices[message.key] = file
      case Int(linux_kept_record): records[message.key] = file
      default: throw .badMessage
      }
    }
    guard let lock, devices.keys == records.keys else { throw .badMessage }
    let mounts = devices.compactMap { key, device in
      records[key].map { KeptMount(device: device, record: $0) }
    }
    return Succession(earlyDeaths: 0, predecessor: predecessor, lock: lock, mounts: mounts)
  }

  package static func receiveEnd(from socket: OpenFile) throws(Errno) {
    guard try receiveOne(from: socket) == nil else { throw .badMessage }
  }

  /// Nil for `sendEnd`.
  private static func receiveOne(
    from socket: OpenFile
  ) throws(Errno) -> (linux_watchdog_message, OpenFile)? {
    var message = linux_watchdog_message()
    var descriptor: Int32 = -1
    let code = linux_hear_daemon(socket.descriptor, &message, &descriptor)
    guard code == 0 else { throw Errno(rawValue: -code) }
    let file = descriptor >= 0 ? OpenFile(owning: descriptor) : nil
    if message.kind == UInt32(linux_watchdog_end) { return nil }
    guard message.kind == UInt32(linux_watchdog_keep), let file else { throw .badMessage }
    return (message, file)
  }
}
