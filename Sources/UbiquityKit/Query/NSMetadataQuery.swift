internal import ControlProtocol
public import Foundation
internal import Platform

/// Finds items in the account's containers by what is known of them, and goes on to tell of
/// changes: of this device's programs, of other devices, of downloads and uploads.
///
/// Set ``predicate`` and ``searchScopes``, then call ``start()``. The results come in the
/// background; notifications say so, on ``operationQueue`` or the main queue, and so does
/// ``updates``. Results change only right before a notification, on that queue; between
/// ``disableUpdates()`` and ``enableUpdates()`` they do not change at all. When the daemon ends and
/// another begins, the query goes on by itself, and what is different then comes as an update.
///
/// May be used from any thread; results are best read on the queue that notifications come on.
///
/// Source: Apple's documentation of `NSMetadataQuery`; iOS 5 Tech Talk, "Use NSMetadataQuery to
/// Discover Changes in the Ubiquity Container".
open class NSMetadataQuery: NSObject, @unchecked Sendable {
  /// How results are sorted. It stands for `NSSortDescriptor`, which on Linux knows no keys.
  public struct SortDescriptor: Hashable, Sendable {
    /// An attribute, by any of its names.
    public let key: String
    /// Smaller values, and what has none, come first.
    public let ascending: Bool

    /// Sorts by an attribute. One that items do not have sorts nothing.
    public init(key: String, ascending: Bool = true) {
      self.key = key
      self.ascending = ascending
    }
  }

  /// One change of the results.
  public struct Update: Sendable {
    /// When it came.
    public enum Phase: Sendable {
      /// More of what is there was found.
      case gathering
      /// All of what is there was found.
      case gathered
      /// Something is different now.
      case update
    }

    /// When it came.
    public let phase: Phase
    /// What fits now and did not before.
    public let added: [NSMetadataItem]
    /// What still fits and has another value of some attribute.
    public let changed: [NSMetadataItem]
    /// What is gone, or fits no more. The values are the last ones.
    public let removed: [NSMetadataItem]
  }

  let state = Lock(QueryState())

  /// A query that looks for nothing yet.
  public override init() { super.init() }

  deinit {
    let continuations = state.withLock { $0.continuations }
    for continuation in continuations.values { continuation.finish() }
    // Not from here: whoever let go of it last may hold the router's lock.
    if isStarted { DispatchQueue.global().async { QueryRouter.shared.dropEnded() } }
  }

  // MARK: What is looked for

  /// What items have to fit. Nothing is found without one. A change counts from the next start on.
  open var predicate: MetadataPredicate? {
    get { state.withLock { $0.predicate } }
    set { state.withLock { $0.predicate = newValue } }
  }

  /// Where to look: ``NSMetadataQueryUbiquitousDocumentsScope``,
  /// ``NSMetadataQueryUbiquitousDataScope``, and directories as `URL` or path. Without a scope of
  /// the first two kinds both are taken, without a directory all mounted containers. A change
  /// counts from the next start on.
  open var searchScopes: [Any] {
    get { state.withLock { $0.scopes.value } }
    set {
      let box = Box(newValue)
      state.withLock { $0.scopes = box }
    }
  }

  /// Looks at these items alone, `URL` or ``NSMetadataItem``, and at what is below those that are
  /// directories.
  open var searchItems: [Any]? {
    get { state.withLock { $0.items?.value } }
    set {
      let box = newValue.map { Box($0) }
      state.withLock { $0.items = box }
    }
  }

  /// How results are sorted; in the order in which they were found without any. A change counts
  /// from the next notification on.
  open var sortDescriptors: [SortDescriptor] {
    get { state.withLock { $0.sortDescriptors } }
    set { state.withLock { $0.sortDescriptors = newValue } }
  }

  /// The least time between two notifications, in seconds; 1 unless set. The first after a pause
  /// comes at once.
  open var notificationBatchingInterval: TimeInterval {
    get { state.withLock { $0.interval } }
    set { state.withLock { $0.interval = newValue } }
  }

  /// Where notifications are posted; the main queue for nil.
  open var operationQueue: OperationQueue? {
    get { state.withLock { $0.queue } }
    set { state.withLock { $0.queue = newValue } }
  }

  // MARK: Running

  /// Starts to gather and returns; false without a predicate, or if it runs already. Results of an
  /// earlier run are dropped.
  @discardableResult
  open func start() -> Bool {
    let isStarted = state.withLock { state -> Bool in
      guard state.predicate != nil, state.phase == .stopped else { return false }
      state.begin()
      return true
    }
    guard isStarted else { return false }
    perform { query in query.post(.NSMetadataQueryDidStartGathering) }
    DispatchQueue.global().async { QueryRouter.shared.start(self) }
    return true
  }

  /// Ends it. The results stay, as they are.
  open func stop() {
    state.withLock { $0.phase = .stopped }
    QueryRouter.shared.stop(self)
  }

  /// It was started and not stopped since.
  open var isStarted: Bool { state.withLock { $0.phase != .stopped } }

  /// It looks for what is there already.
  open var isGathering: Bool { state.withLock { $0.phase == .gathering } }

  /// It was stopped, or not started yet.
  open var isStopped: Bool { state.withLock { $0.phase == .stopped } }

  /// Why nothing, or not everything, was found: there is no daemon, nobody is signed in, a scope is
  /// in no mount. Apple's query has no such property.
  open var error: (any Error)? { state.withLock { $0.error } }

  /// The results stay as they are until ``enableUpdates()`` was called as often.
  open func disableUpdates() { state.withLock { $0.disabled += 1 } }

  /// What has changed since ``disableUpdates()`` comes with the next notification.
  open func enableUpdates() {
    state.withLock { $0.disabled = max(0, $0.disabled - 1) }
    flushSoon()
  }

  // MARK: Results

  /// How many results there are now.
  open var resultCount: Int { state.withLock { $0.results.count } }

  /// An ``NSMetadataItem``. The index is one of a result.
  open func result(at index: Int) -> Any { state.withLock { $0.results[index] } }

  /// All results, each an ``NSMetadataItem``, as they are now.
  open var results: [Any] { state.withLock { $0.results } }

  /// Where the item is among the results; `NSNotFound` for what is no result. Takes time that grows
  /// with their number.
  open func index(ofResult result: Any) -> Int {
    guard let item = result as? NSMetadataItem else { return NSNotFound }
    return state.withLock { $0.results.firstIndex { $0 === item } } ?? NSNotFound
  }

  /// The value of an attribute of a result: see ``NSMetadataItem/value(forAttribute:)``.
  open func value(ofAttribute key: String, forResultAt index: Int) -> Any? {
    state.withLock { $0.results[index] }.value(forAttribute: key)
  }

  /// Calls `body` for each result, until it sets the last argument to true.
  open func enumerateResults(_ body: (Any, Int, inout Bool) -> Void) {
    var isOver = false
    for (index, item) in state.withLock({ $0.results }).enumerated() {
      body(item, index, &isOver)
      if isOver { return }
    }
  }

  /// What happens to the results. Start the query for it, before or after. Any number may listen;
  /// it ends with the query. Who begins to listen when something was gathered already is told of
  /// that first, in one update of the phase that the query is in, so nobody waits for an end that
  /// has come.
  open var updates: AsyncStream<Update> {
    AsyncStream { continuation in
      let id = state.withLock { state -> Int in
        state.nextListener += 1
        state.continuations[state.nextListener] = continuation
        // Under the lock: what is applied later is told later.
        if let update = state.soFar { continuation.yield(update) }
        return state.nextListener
      }
      continuation.onTermination = { [weak self] _ in
        _ = self?.state.withLock { $0.continuations.removeValue(forKey: id) }
      }
    }
  }
}

/// What callers gave as `Any`, which says nothing of threads. It is read and never changed.
struct Box: @unchecked Sendable {
  let value: [Any]

  init(_ value: [Any]) { self.value = value }
}
