/// Where objects are: a flat space of keys, each with bytes.
///
/// Keys are components of letters, digits, `.`, `_` and `-`, joined by `/`; see `StoreKey`. The
/// order of keys is the order of their bytes.
///
/// What every store promises, and the conformance suite checks:
/// - **Atomic.** A reader sees an object whole or not at all, whoever writes it and whatever ends
///   the writer.
/// - **Durable.** When a call that writes returns, its effect survives a power cut.
/// - **In order.** What a call did is seen by every call that starts after it returned, on every
///   device.
/// - **Safe from any task.** Calls may run at the same time, and do not block the calling thread.
///
/// After `.unavailable`, `.busy` and `.cancelled` the caller cannot know whether a write was done.
/// `get`, `list`, `delete` and `replace` may simply be done again. `putIfAbsent` may be done again
/// too, but may then answer false because of the object that it stored itself: compare what is
/// there.
package protocol ObjectStore: Sendable, CustomStringConvertible {
  /// The object's bytes, or those of `range`; less where the object ends before the range does.
  /// Fails with `.notFound`.
  func get(_ key: String, range: Range<UInt64>?) async throws(StoreError) -> [UInt8]

  /// Stores an object unless there is one. Of all calls for a key, on all devices, at most one
  /// answers true.
  func putIfAbsent(_ key: String, _ bytes: [UInt8]) async throws(StoreError) -> Bool

  /// Stores an object whether or not there is one.
  func replace(_ key: String, _ bytes: [UInt8]) async throws(StoreError)

  /// The first `limit` keys that start with `prefix` and come after `after`, in order. Fewer than
  /// `limit` means that there are no more.
  func list(prefix: String, after: String?, limit: Int) async throws(StoreError) -> [String]

  /// As `list`, with the sizes of objects where the store can tell them as cheaply.
  func listObjects(prefix: String, after: String?, limit: Int) async throws(StoreError)
    -> [ListedObject]

  /// The first `limit` names under `prefix` that come after `after`, in order: those of objects and
  /// those of everything else, such as `~x.tmp`, which is no key. `prefix` ends in `/`. If it is
  /// empty, these are the names right at the top, and `after` is nil. A name that ends in `/` is a
  /// directory that was not looked into. For reports only: nothing else may depend on such names.
  func storedNames(prefix: String, after: String?, limit: Int) async throws(StoreError)
    -> [String]

  /// Removes an object; one that is not there is removed already.
  func delete(_ key: String) async throws(StoreError)

  /// Says that objects under `prefix`, which ends in `/`, may have changed, whoever changed them:
  /// perhaps too often, perhaps late, and not for every change. It is a hint to look; who must not
  /// miss anything looks now and then without one. Objects further down than right below `prefix`
  /// need not be told of. Ends when its consumer does.
  func news(prefix: String) -> AsyncStream<Void>

  /// Whether the store itself tells of no news: `PollingStore` looks for them then, at a pace of
  /// its own, and whoever listens need not look as well, which would cost as many requests again.
  var looksForNews: Bool { get }
}

extension ObjectStore {
  package var looksForNews: Bool { false }

  package func get(_ key: String) async throws(StoreError) -> [UInt8] {
    try await get(key, range: nil)
  }
}

/// Why a store did not do what it was asked. Each text says what to do about it.
package enum StoreError: Error, Equatable, Sendable, CustomStringConvertible {
  case notFound(String)
  /// Airplane mode is on: nothing was tried.
  case offline
  /// It may work later; whether a write was done is not known.
  case unavailable(String)
  /// As `.unavailable`; the store answers, and asks to be left alone for a while, or for the time
  /// that it says. Concrete stores say it; above `RetryingStore` it is `.unavailable`.
  case busy(String, retryAfter: Duration?)
  /// The backend is known not to answer: nothing was tried.
  case unreachable(String)
  case notPermitted(String)
  case noSpace(String)
  /// The key is none, or something that is no store is where the store should be.
  case invalid(String)
  case cancelled

  /// How long to wait at least before it is done again; nil where that would not help.
  package var pauseBeforeRetry: Duration? {
    switch self {
    case .unavailable: .zero
    case .busy(_, let asked): asked.map { min($0, .seconds(30)) } ?? .zero
    default: nil
    }
  }

  package var description: String {
    switch self {
    case .notFound(let key): "the backend has no object \"\(key)\""
    case .offline: "offline mode is on; turn it off with `ubiquityfs offline off`"
    case .unavailable(let text), .notPermitted(let text), .noSpace(let text), .invalid(let text),
      .busy(let text, _):
      text
    case .unreachable(let text): "the backend cannot be reached: \(text)"
    case .cancelled: "the operation was cancelled"
    }
  }
}

/// The rules of keys, the same for every store, so that what works on one works on all.
package enum StoreKey {
  package static let maximumLength = 900

  /// Refuses everything that could mean something else as a path or a URL.
  package static func check(_ key: String) throws(StoreError) {
    guard isValid(key, isPrefix: false) else {
      throw .invalid("\"\(key)\" is not a valid object key")
    }
  }

  /// A prefix is the start of a key; it may end in `/` or in the midst of a component.
  package static func checkPrefix(_ prefix: String) throws(StoreError) {
    guard isValid(prefix, isPrefix: true) else {
      throw .invalid("\"\(prefix)\" is not a valid prefix of object keys")
    }
  }

  /// Kept for the stores' own use.
  package static let reserved = "tmp"

  private static func isValid(_ key: String, isPrefix: Bool) -> Bool {
    if key.isEmpty { return isPrefix }
    guard key.utf8.count <= maximumLength else { return false }
    var components = key.utf8.split(
      separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
    if isPrefix, components.last?.isEmpty == true { components.removeLast() }
    if components.first?.elementsEqual(reserved.utf8) == true { return false }
    return components.allSatisfy { component in
      guard let first = component.first, first != UInt8(ascii: "."), component.count <= 200 else {
        return false
      }
      return component.allSatisfy { byte in
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
          UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."), UInt8(ascii: "_"),
          UInt8(ascii: "-"):
          true
        default: false
        }
      }
    }
  }
}

/// Whether key `left` stands before `right`. `String` compares by Unicode, not by bytes.
package func keyPrecedes(_ left: String, _ right: String) -> Bool {
  left.utf8.lexicographicallyPrecedes(right.utf8)
}
