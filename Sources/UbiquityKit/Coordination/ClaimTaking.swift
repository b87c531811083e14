internal import ControlProtocol
internal import DaemonClient
internal import Foundation
internal import Platform

/// What is wanted of one item.
struct ClaimWish: Sendable {
  let url: URL
  let reads: Bool
  let options: [String]
  /// The item has to be there when the claim is given.
  let mustExist: Bool

  static func reading(_ url: URL, _ options: NSFileCoordinator.ReadingOptions) -> ClaimWish {
    ClaimWish(url: url, reads: true, options: options.names, mustExist: true)
  }

  static func writing(_ url: URL, _ options: NSFileCoordinator.WritingOptions) -> ClaimWish {
    ClaimWish(url: url, reads: false, options: options.names, mustExist: false)
  }
}

/// A claim that is held, until `release`.
final class TakenClaim: Sendable {
  /// Where the items are now, in the order of the wishes.
  let urls: [URL]
  private let holding: Lock<(connection: DaemonConnection, claim: UInt64)?>

  /// `holding` is nil where nothing had to be claimed.
  init(urls: [URL], holding: (connection: DaemonConnection, claim: UInt64)?) {
    self.urls = urls
    self.holding = Lock(holding)
  }

  /// Once; after that it does nothing. `completion` runs when nobody has to wait for the claim any
  /// more, on the connection's thread or this one.
  func release(completion: @escaping @Sendable () -> Void = {}) {
    let held = holding.withLock { holding in
      defer { holding = nil }
      return holding
    }
    guard let held else { return completion() }
    held.connection.call(Methods.ReleaseClaim.self, ReleaseRequest(claim: held.claim)) { _ in
      completion()
    }
  }

  /// Blocks until nobody has to wait for the claim any more: another program may be started next.
  func releaseAndWait() {
    let gate = Gate()
    release { gate.open() }
    gate.wait()
  }

  /// Throws, and releases, when an item is missing that has to be there.
  func check(_ wishes: [ClaimWish]) throws(NSError) {
    for (wish, url) in zip(wishes, urls) where wish.mustExist && !url.isThere {
      release()
      throw UbiquityErrors.missing(wish.url) as NSError
    }
  }
}

/// A claim that is waited for. Whoever is first, the daemon or who cancels, ends the waiting; a
/// claim that is given after that is released at once.
final class PendingClaim: Sendable {
  typealias Outcome = Result<TakenClaim, NSError>

  private struct State {
    var outcome: Outcome?
    var action: (@Sendable (Outcome) -> Void)?
    var connection: DaemonConnection?
  }

  private static let tickets = Lock<UInt64>(0)

  let ticket = tickets.withLock { tickets in
    tickets += 1
    return tickets
  }
  private let state = Lock(State())

  /// Runs `action` when it has ended, at once if it has; on the thread that ends it, which must not
  /// be kept waiting.
  func onEnd(_ action: @escaping @Sendable (Outcome) -> Void) {
    let outcome = state.withLock { state in
      if state.outcome == nil { state.action = action }
      return state.outcome
    }
    if let outcome { action(outcome) }
  }

  /// False when it had ended before.
  @discardableResult
  func end(_ outcome: Outcome) -> Bool {
    let (isFirst, action) = state.withLock { state in
      guard state.outcome == nil else {
        return (false, nil as (@Sendable (Outcome) -> Void)?)
      }
      state.outcome = outcome
      defer { state.action = nil }
      return (true, state.action)
    }
    action?(outcome)
    return isFirst
  }

  func cancel() {
    guard end(.failure(UbiquityErrors.cancelled as NSError)) else { return }
    let connection = state.withLock { $0.connection }
    connection?.call(Methods.CancelClaim.self, CancelRequest(ticket: ticket)) { _ in }
  }

  /// Asks for all wishes at once. Blocks while the items are looked up and, where there is none,
  /// while a connection is made, and not for the claim.
  func begin(_ wishes: [ClaimWish], purpose: String, presenter: (any NSFilePresenter)?) {
    do throws(NSError) {
      try ask(wishes, purpose, presenter)
    } catch {
      end(.failure(error))
    }
  }

  private func ask(
    _ wishes: [ClaimWish], _ purpose: String, _ presenter: (any NSFilePresenter)?
  ) throws(NSError) {
    var accesses: [(index: Int, access: ClaimedAccess)] = []
    for (index, wish) in wishes.enumerated() {
      guard let item = try Self.item(wish) else { continue }
      let access = ClaimedAccess(
        item: item, intent: wish.reads ? "read" : "write", options: wish.options)
      accesses.append((index, access))
    }
    guard !accesses.isEmpty else {
      end(.success(TakenClaim(urls: wishes.map(\.url), holding: nil)))
      return
    }
    let reads = wishes.allSatisfy(\.reads)
    let url = wishes.count == 1 ? wishes[0].url : nil
    let connection: DaemonConnection
    do throws(ControlError) {
      connection = try Service.shared.connection()
    } catch {
      throw UbiquityErrors.cocoa(error, reads ? .reading : .writing, at: url) as NSError
    }
    let isOver = state.withLock { state in
      state.connection = connection
      return state.outcome != nil
    }
    guard !isOver else { return }
    let request = ClaimRequest(
      accesses: accesses.map(\.access), purpose: purpose,
      presenter: presenter.flatMap { PresenterRegistry.shared.number(of: $0, on: connection) },
      ticket: ticket)
    connection.call(Methods.Claim.self, request) { [self, accesses] answer in
      switch answer {
      case .failure(let error):
        end(.failure(UbiquityErrors.cocoa(error, reads ? .reading : .writing, at: url) as NSError))
      case .success(let given):
        var urls = wishes.map(\.url)
        for ((index, access), path) in zip(accesses, given.paths) {
          urls[index] = Self.url(path, of: access.item, as: urls[index])
        }
        let claim = TakenClaim(urls: urls, holding: (connection, given.claim))
        if !end(.success(claim)) { claim.release() }
      }
    }
  }

  /// Nil for what is in no ubiquity container.
  private static func item(_ wish: ClaimWish) throws(NSError) -> ItemReference? {
    do throws(ControlError) {
      return try ItemLocator.locateFormer(wish.url.pathBytes)
    } catch {
      if error.status == .notFound { return nil }
      throw UbiquityErrors.cocoa(error, wish.reads ? .reading : .writing, at: wish.url) as NSError
    }
  }

  /// As the caller wrote it, if the item is still where it was.
  private static func url(_ path: PathBytes, of item: ItemReference, as asked: URL) -> URL {
    let slash: [UInt8] = item.path.bytes.isEmpty ? [] : [0x2F]
    if path.bytes.isEmpty || path.bytes == item.mountpoint.bytes + slash + item.path.bytes {
      return asked
    }
    return URL(path, isDirectory: asked.hasDirectoryPath)
  }
}

/// What is under a claim, as long as the accessor runs: whatever claims within it has part in the
/// claim.
final class CoordinationContext: Sendable {
  @TaskLocal static var current: CoordinationContext?

  let purpose: String
  private let isOver = Lock(false)

  init(purpose: String) { self.purpose = purpose }

  func end() { isOver.withLock { $0 = true } }

  /// Of the accessor that this runs in. What an accessor leaves behind in a task of its own is not
  /// in it any more.
  static var purpose: String? {
    guard let current, !current.isOver.withLock({ $0 }) else { return inherited }
    return current.purpose
  }

  /// Of the `ubiquityfs coordinate` that this program runs in.
  private static let inherited: String? = {
    let value = ProcessInfo.processInfo.environment["UBIQUITYFS_CLAIM"]
    return value.flatMap { $0.isEmpty ? nil : $0 }
  }()
}
