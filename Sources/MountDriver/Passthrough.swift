internal import FileSystem
internal import FuseKernel
internal import Glibc
internal import Platform
internal import SystemPackage

/// How local files of a mount are read and written.
package enum IOMode: Hashable, Sendable {
  /// By the kernel itself.
  case passthrough
  /// Through the daemon, and why.
  case daemon(reason: String)

  package var isKernel: Bool { self == .passthrough }

  package var reason: String? {
    if case .daemon(let reason) = self { return reason }
    return nil
  }
}

/// Whether the kernel serves local files of a mount itself, and the way to have it do so.
///
/// States: wished or not (`wish`), then agreed or refused (`begin`); refused, too, by the first
/// registration that the kernel would refuse for every file. It never comes back. The lock is a
/// leaf.
final class Passthrough: ContentPassthrough {
  /// Turns it off for all mounts of a daemon, when it is `off`.
  static let variable = "UBIQUITYFS_PASSTHROUGH"

  private struct State {
    var mode: IOMode
    var files: FuseBackingFiles?
  }

  private let contentDirectory: String
  private let isWished: Bool
  private let state: Lock<State>
  private let isKnown = Gate()

  init(contentDirectory: String, isWanted: Bool) {
    self.contentDirectory = contentDirectory
    let isOff = getenv(Self.variable).map { String(cString: $0) == "off" } ?? false
    isWished = isWanted && !isOff
    let reason =
      isOff
      ? "it is switched off by \(Self.variable)=off"
      : isWanted
        ? "the connection to the kernel has not started yet"
        : "it is switched off by the option passthrough=off"
    state = Lock(State(mode: .daemon(reason: reason)))
  }

  var mode: IOMode { state.withLock { $0.mode } }

  /// What to ask the kernel for. A state directory on a stacked file system makes two layers of it.
  var wish: FuseWishes.Passthrough? {
    guard isWished else { return nil }
    let isStacked = (try? Files.isOnStackedFileSystem(contentDirectory)) ?? false
    return FuseWishes.Passthrough(stackDepth: isStacked ? 2 : 1)
  }

  func setFiles(_ files: FuseBackingFiles?) { state.withLock { $0.files = files } }

  /// The kernel has answered. Registering a file shows whether it lets us, too.
  func begin(isGranted: Bool) {
    defer { isKnown.open() }
    guard isWished else { return }
    guard isGranted else {
      return refuse("the kernel has no FUSE passthrough, which needs Linux 6.9 or newer")
    }
    state.withLock { $0.mode = .passthrough }
    do throws(Errno) {
      let path = "\(contentDirectory)/.probe-\(getpid())"
      let file = try OpenFile.open(path, flags: O_RDONLY | O_CREAT)
      try? Files.remove(path)
      unregister(try register(file))
      do {
        guard try !file.hasWriter() else { throw Errno.resourceBusy }
      } catch {
        refuse("the file system of the state directory cannot report writers of files: \(error)")
      }
    } catch {
      refuse(Self.reason(error))
    }
  }

  /// Waits until the mode is known, for a moment at most: the kernel asks by itself.
  func waitUntilKnown() { _ = isKnown.wait(milliseconds: 2000) }

  private func refuse(_ reason: String) {
    state.withLock { $0.mode = .daemon(reason: reason) }
  }

  private static func reason(_ error: Errno) -> String {
    switch error {
    case .notPermitted: "the daemon lacks CAP_SYS_ADMIN, which the kernel requires"
    case .tooManySymbolicLinkLevels: "the state directory is on too many stacked file systems"
    default: "the kernel does not accept files of the state directory: \(error)"
    }
  }

  func register(_ file: OpenFile) throws(Errno) -> Int32 {
    let (files, isOn) = state.withLock { ($0.files, $0.mode.isKernel) }
    guard isOn, let files else { throw Errno.notPermitted }
    do {
      return try files.register(file.descriptor)
    } catch {
      // Not for want of memory or of a free number: then the next file may be taken.
      if [.notPermitted, .tooManySymbolicLinkLevels, .notSupported].contains(error) {
        refuse(Self.reason(error))
      }
      throw error
    }
  }

  func unregister(_ id: Int32) { state.withLock { $0.files }?.unregister(id) }
}
