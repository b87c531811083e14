import Glibc
import MountDriver
import Platform
import SystemPackage
import Testing

/// How a mount of a test talks to the kernel. Tests of mounts are run over each that this machine has.
enum Transport: String, Sendable, CustomTestStringConvertible {
  case device
  case ring = "io_uring"

  var testDescription: String { rawValue }

  static let available: [Transport] = RingSwitch.isThere ? [.device, .ring] : [.device]

  /// Starts a mount over it, and throws if it came to be another one.
  func start(_ mount: ContainerMount, isDeclined: Bool) throws {
    switch self {
    case .device where isDeclined: try mount.start()
    case .device: try RingSwitch.whileSet("N") { try mount.start() }
    case .ring: try RingSwitch.whileSet("Y") { try self.startOverRing(mount) }
    }
  }

  private func startOverRing(_ mount: ContainerMount) throws {
    try mount.start()
    // The mount answers the kernel's first request after it has returned.
    for _ in 0..<10_000 {
      if mount.transport.name == rawValue { return }
      usleep(1000)
    }
    throw NotUsed(reason: mount.transport.reason)
  }

  struct NotUsed: Error {
    let reason: String?
  }
}

/// The kernel's switch for FUSE over io_uring, of the whole machine; it is only looked at when a mount
/// begins, and is put back at once.
enum RingSwitch {
  private static let path = "/sys/module/fuse/parameters/enable_uring"
  private static let users = Lock(0)

  /// Only root may turn it.
  static var isThere: Bool { access(path, W_OK) == 0 }

  static func whileSet(_ value: String, _ body: () throws -> Void) throws {
    try users.withLock { _ in
      let before = Files.smallText(path) ?? "N"
      if before != value { try set(value) }
      defer { if before != value { try? set(before) } }
      try body()
    }
  }

  private static func set(_ value: String) throws(Errno) {
    let descriptor = open(path, O_WRONLY | O_CLOEXEC)
    guard descriptor >= 0 else { throw Errno(rawValue: errno) }
    defer { close(descriptor) }
    guard write(descriptor, value, value.utf8.count) == value.utf8.count else {
      throw Errno(rawValue: errno)
    }
  }
}
