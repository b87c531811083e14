internal import ControlProtocol
internal import DaemonClient
internal import Foundation
internal import Platform
internal import SystemPackage

/// Asking the daemon about items that are named by URL. Blocking, for any thread but the
/// connection's.
enum ItemCalls {
  static func path(_ url: URL) throws(CocoaError) -> FilePath {
    let path: FilePath? = url.withUnsafeFileSystemRepresentation { name in
      name.map { FilePath(platformString: $0) }
    }
    guard url.isFileURL, let path, !path.isEmpty else {
      throw UbiquityErrors.cocoa(.fileReadUnsupportedScheme, "the URL is not a file URL", at: url)
    }
    return path
  }

  static func bytes(_ path: FilePath) -> PathBytes {
    PathBytes(
      path.withPlatformString { name in
        UnsafeRawBufferPointer(start: name, count: path.length).map { $0 }
      })
  }

  /// Calls of the system on what is at `url`, to write there.
  static func onDisk<Result>(_ url: URL, _ work: (FilePath) throws(Errno) -> Result)
    throws(CocoaError) -> Result
  {
    let path = try path(url)
    do throws(Errno) { return try work(path) } catch {
      throw UbiquityErrors.cocoa(error, .writing, at: url)
    }
  }

  /// Nil where there is no attribute of the name, or nothing that could have one.
  static func attribute(_ name: String, of url: URL) -> [UInt8]? {
    (try? path(url)).flatMap { path in (try? path.attribute(name)).flatMap(\.self) }
  }

  static func setAttribute(_ name: String, _ value: [UInt8], of url: URL) throws(CocoaError) {
    try onDisk(url) { path throws(Errno) in try path.setAttribute(name, value) }
  }

  static func text(_ name: String, of url: URL) -> String? {
    attribute(name, of: url).map { String(decoding: $0, as: UTF8.self) }
  }

  static func locate(_ url: URL, _ doing: UbiquityErrors.Doing) throws(CocoaError)
    -> ItemReference
  {
    let path = bytes(try path(url))
    do throws(ControlError) { return try ItemLocator.locate(path) } catch {
      throw UbiquityErrors.cocoa(error, doing, at: url)
    }
  }

  /// Calls the daemon that serves this program, starting it where none runs.
  static func call<Method: ControlMethod>(
    _ method: Method.Type, _ parameters: Method.Parameters, _ doing: UbiquityErrors.Doing,
    at url: URL?
  ) throws(CocoaError) -> Method.Answer {
    do throws(ControlError) {
      return try Service.shared.connection().callAndWait(method, parameters)
    } catch {
      throw UbiquityErrors.cocoa(error, doing, at: url)
    }
  }

  /// Blocks a thread of its own, not the concurrency pool's.
  static func onThread<Value: Sendable>(
    _ work: @escaping @Sendable () throws -> Value
  ) async throws -> Value {
    try await withCheckedThrowingContinuation { continuation in
      _ = startThread { continuation.resume(with: Result { try work() }) }
    }
  }

  // MARK: Claims

  /// Runs `body` while items are claimed for writing, as `NSFileCoordinator` would: whoever
  /// presents them is asked, whoever has them is waited for, the sync engine too.
  static func withClaim<Value>(
    on items: [ItemReference], options: [String], at url: URL,
    _ body: () throws(CocoaError) -> Value
  ) throws(CocoaError) -> Value {
    let given = try call(
      Methods.Claim.self,
      ClaimRequest(
        accesses: items.map { ClaimedAccess(item: $0, intent: "write", options: options) }),
      .writing, at: url)
    defer {
      // It ends with the connection at the latest.
      _ = try? call(
        Methods.ReleaseClaim.self, ReleaseRequest(claim: given.claim), .writing, at: url)
    }
    return try body()
  }
}
