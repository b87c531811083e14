internal import Dispatch
internal import Foundation
internal import Platform

/// What of a document is not the main actor's: where it is, and the queues.
final class DocumentCore: Sendable {
  private let location: Lock<URL>
  /// Where others ask and tell.
  let presenting: OperationQueue
  /// The disk is used here, one thing after the other, in the order in which it was asked for.
  private let disk = DispatchQueue(label: "ubiquitykit.document")

  init(_ url: URL) {
    location = Lock(url)
    presenting = OperationQueue()
    presenting.maxConcurrentOperationCount = 1
  }

  var url: URL {
    get { location.withLock { $0 } }
    set { location.withLock { $0 = newValue } }
  }

  /// Its place in the order is that of the call.
  nonisolated(nonsending) func onDisk<Value: Sendable>(
    _ body: @escaping @Sendable () throws -> Value
  ) async throws -> Value {
    try await withCheckedThrowingContinuation { continuation in
      disk.async { continuation.resume(with: Result { try body() }) }
    }
  }

  func afterDisk(_ body: @escaping @Sendable () -> Void) { disk.async(execute: body) }
}

/// Why a document is not to be edited.
enum DisablingReason: Hashable, Sendable {
  case newerFormat
  case others
}

/// Which edits are stored.
struct EditCount: Sendable {
  struct Token: Sendable {
    fileprivate let position: Int
    fileprivate let branch: Int
  }

  private var position = 0
  private var branch = 0
  /// Nil when what is stored cannot be reached by taking back any more.
  private var stored: Int? = 0

  var hasUnsaved: Bool { stored != position }
  var token: Token { Token(position: position, branch: branch) }

  mutating func note(_ change: UbiquitousDocument.ChangeKind) {
    switch change {
    case .done:
      if let stored, stored > position {
        self.stored = nil
        branch += 1
      }
      position += 1
    case .undone: position -= 1
    case .redone: position += 1
    case .cleared: stored = position
    }
  }

  mutating func stored(_ token: Token) {
    // An edit after some were taken back: what was stored is on another branch.
    guard token.branch == branch else { return }
    stored = token.position
  }
}

/// What is in a document, as it was loaded or stored. Handed between the main actor and the disk's
/// thread, one at a time.
struct DocumentContents: @unchecked Sendable {
  enum Value {
    case data(Data)
    case wrapper(FileWrapper)
  }

  let value: Value
  /// Of what is on the disk.
  var stamp: FileStamp?

  var any: Any {
    switch value {
    case .data(let data): data
    case .wrapper(let wrapper): wrapper
    }
  }

  /// Nil for what is neither.
  init?(_ any: Any) {
    if let data = any as? Data {
      value = .data(data)
    } else if let wrapper = any as? FileWrapper {
      value = .wrapper(wrapper)
    } else {
      return nil
    }
  }

  init(_ value: Value, _ stamp: FileStamp?) {
    self.value = value
    self.stamp = stamp
  }

  /// Whether `url` has what was loaded or stored, as far as is seen without reading.
  func isUnchanged(at url: URL) -> Bool {
    switch value {
    case .data: stamp != nil && FileStamp(url) == stamp
    case .wrapper(let wrapper): wrapper.matchesContents(of: url)
    }
  }
}
