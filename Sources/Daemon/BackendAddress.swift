package import Backend
internal import BackendDirectory
package import ControlProtocol
internal import Platform

/// A backend as its URL names it.
package struct BackendAddress: Equatable, Sendable, CustomStringConvertible {
  /// Of a directory; absolute.
  package let path: String

  package var description: String { "file://\(path)" }

  /// `file:///DIRECTORY`, with `%XX` for any byte. Throws `usage` for what is no backend's URL.
  package init(_ url: String) throws(ControlError) {
    guard let colon = url.range(of: "://") else {
      throw ControlError(
        .usage, "“\(url)” is no backend's URL; give one like file:///srv/ubiquityfs")
    }
    let scheme = url[..<colon.lowerBound].lowercased()
    let rest = url[colon.upperBound...]
    switch scheme {
    case "file":
      guard rest.hasPrefix("/"), let path = Self.decode(rest) else {
        throw ControlError(
          .usage, "“\(url)” names no absolute directory; give one like file:///srv/ubiquityfs")
      }
      self.path = Configuration.absolute(path)
    case "s3":
      throw ControlError(
        .failed, "s3:// backends are not supported by this version; use file:///DIRECTORY")
    default:
      throw ControlError(.usage, "there is no backend \(scheme)://; give file:///DIRECTORY")
    }
  }

  /// The directory `ubiquityfs-cloud` beside the state directory.
  package init(besideState state: String) {
    path = Configuration.absolute(state + "/../ubiquityfs-cloud")
  }

  private static func decode(_ text: Substring) -> String? {
    var bytes: [UInt8] = []
    var rest = Array(text.utf8)[...]
    while let byte = rest.popFirst() {
      guard byte == 0x25 else {
        bytes.append(byte)
        continue
      }
      guard rest.count >= 2,
        let code = UInt8(String(decoding: rest.prefix(2), as: UTF8.self), radix: 16), code != 0
      else { return nil }
      bytes.append(code)
      rest = rest.dropFirst(2)
    }
    return String(validating: bytes, as: UTF8.self)
  }

  /// Where this machine keeps a secret that it generated for the directory, so that a further state
  /// directory of the same user signs in without being given it.
  package var keyFile: String { path + ".key" }
}

extension String {
  /// Where `other` first stands in it.
  fileprivate func range(of other: String) -> Range<Index>? {
    var start = startIndex
    while start < endIndex {
      if self[start...].hasPrefix(other) { return start..<index(start, offsetBy: other.count) }
      start = index(after: start)
    }
    return nil
  }
}

/// A store that is opened when it is first used, and again until that works: a device starts while
/// its backend is away.
package final class LateStore: ObjectStore {
  private let address: BackendAddress
  private let opened = Lock<(any ObjectStore)?>(nil)

  package init(_ address: BackendAddress) { self.address = address }

  package var description: String { address.description }

  /// Makes the store if there is none. Blocks for a few system calls.
  package func make() throws(StoreError) {
    let store = try DirectoryStore(path: address.path, createIfMissing: true)
    opened.withLock { $0 = store }
  }

  private func store() throws(StoreError) -> any ObjectStore {
    if let store = opened.withLock({ $0 }) { return store }
    let store = try DirectoryStore(path: address.path, createIfMissing: false)
    opened.withLock { $0 = store }
    return store
  }

  package func get(_ key: String, range: Range<UInt64>?) async throws(StoreError) -> [UInt8] {
    try await store().get(key, range: range)
  }

  package func putIfAbsent(_ key: String, _ bytes: [UInt8]) async throws(StoreError) -> Bool {
    try await store().putIfAbsent(key, bytes)
  }

  package func replace(_ key: String, _ bytes: [UInt8]) async throws(StoreError) {
    try await store().replace(key, bytes)
  }

  package func list(prefix: String, after: String?, limit: Int) async throws(StoreError)
    -> [String]
  {
    try await store().list(prefix: prefix, after: after, limit: limit)
  }

  package func delete(_ key: String) async throws(StoreError) { try await store().delete(key) }

  /// Of a store that cannot be opened there are no news; who listens asks again.
  package func news(prefix: String) -> AsyncStream<Void> {
    guard let store = try? store() else { return AsyncStream { $0.finish() } }
    return store.news(prefix: prefix)
  }
}

/// The store of an account with what stands around it: calls are counted where they go out, done
/// again when they fail for now, and let through only when the device is online.
package struct BackendStack: Sendable {
  package let late: LateStore
  package let metered: MeteredStore
  package let store: any ObjectStore

  package init(_ address: BackendAddress, offline: OfflineSwitch) {
    late = LateStore(address)
    metered = MeteredStore(late)
    store = GatedStore(RetryingStore(metered), offline: offline)
  }
}
