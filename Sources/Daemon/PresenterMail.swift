internal import Coordination

/// What is to be sent to a connection about its presenters, in order, until it is sent.
///
/// A client that does not read loses no fact: what it has not been sent yet it is told once,
/// whatever number of times it happened, and when there is too much of it for one presenter, that
/// is told to look at all of its item anew. So this is bounded by the presenters that the
/// connection has.
///
/// A presenter that was asked to let go hears of no change until it may take up again. Source:
/// NSFilePresenter, relinquishPresentedItem(toWriter:).
struct PresenterMail {
  enum Message {
    /// The answer to a request, ready to be sent.
    case line([UInt8])
    case asked(UInt64, Question)
    case passedOver(UInt64, Question)
    case reacquire(PresenterID)
    case news(PresenterNews)
    /// More than could be kept.
    case everything(PresenterID)
  }

  private static let subjectsOfOne = 100
  private static let subjectsOfAll = 20_000

  private var queue: [Message] = []
  /// How many at the front of `queue` were taken.
  private var taken = 0
  /// What of the queue, after what the presenter was last asked, need not be said twice.
  private var queued: [PresenterID: Set<PresenterNews.Subject>] = [:]
  private var overfull: Set<PresenterID> = []
  private var subjects = 0
  /// Those that have let go, with what they are to hear when they take up again.
  private var away: [PresenterID: [PresenterNews.Subject]] = [:]
  /// Questions that are out, and were not answered or given up.
  private var open: Set<UInt64> = []
  private var compactAt = Self.subjectsOfAll

  var isEmpty: Bool { taken == queue.count }

  // MARK: In

  mutating func add(_ line: [UInt8]) { append(.line(line)) }

  mutating func ask(_ number: UInt64, _ question: Question) {
    open.insert(number)
    append(.asked(number, question))
    switch question.request {
    case .relinquishToReader, .relinquishToWriter:
      queued[question.presenter] = nil
      overfull.remove(question.presenter)
      if away[question.presenter] == nil { away[question.presenter] = [] }
    default: break
    }
  }

  mutating func close(_ number: UInt64) { open.remove(number) }

  mutating func passOver(_ number: UInt64, _ question: Question) {
    open.remove(number)
    append(.passedOver(number, question))
  }

  mutating func reacquire(_ presenter: PresenterID) {
    append(.reacquire(presenter))
    for subject in away.removeValue(forKey: presenter) ?? [] {
      add(PresenterNews(presenter, subject))
    }
  }

  mutating func add(_ news: PresenterNews) {
    if var list = away[news.presenter] {
      guard !list.contains(news.subject) else { return }
      list.append(news.subject)
      if list.count > Self.subjectsOfOne { list = Self.everything(list) }
      away[news.presenter] = list
      return
    }
    guard !overfull.contains(news.presenter),
      queued[news.presenter, default: []].insert(news.subject).inserted
    else { return }
    let isTooMuch: Bool
    if case .item(let kind) = news.subject, !kind.isOfVersion {
      isTooMuch = false
    } else {
      isTooMuch =
        subjects >= Self.subjectsOfAll
        || (queued[news.presenter]?.count ?? 0) > Self.subjectsOfOne
    }
    guard !isTooMuch else {
      queued[news.presenter]?.remove(news.subject)
      overfull.insert(news.presenter)
      return append(.everything(news.presenter))
    }
    subjects += 1
    append(.news(news))
  }

  /// What is left of too much while the presenter is away: all that is of the item itself, and one
  /// subitem for all.
  private static func everything(_ list: [PresenterNews.Subject]) -> [PresenterNews.Subject] {
    var result = list.filter { subject in
      if case .item(let kind) = subject { return !kind.isOfVersion }
      return false
    }
    if !result.contains(.item(.changed)) { result.append(.item(.changed)) }
    if let place = list.lazy.compactMap({ subject in
      if case .subitem(_, let place) = subject { place } else { nil }
    }).first {
      result.append(.subitem(.changed, place))
    }
    return result
  }

  mutating func forget(_ presenter: PresenterID) {
    away[presenter] = nil
    queued[presenter] = nil
    overfull.remove(presenter)
  }

  private mutating func append(_ message: Message) {
    queue.append(message)
    if queue.count - taken > compactAt { compact() }
  }

  /// Keeps of what is said several times the last, and of questions those that still want an
  /// answer.
  private mutating func compact() {
    var said: Set<PresenterNews> = []
    var reacquired: Set<PresenterID> = []
    var everything: Set<PresenterID> = []
    var kept: [Message] = []
    for message in queue[taken...].reversed() {
      switch message {
      case .line: break
      case .asked(let number, _): guard open.contains(number) else { continue }
      case .passedOver: continue
      case .reacquire(let presenter): guard reacquired.insert(presenter).inserted else { continue }
      case .everything(let presenter): guard everything.insert(presenter).inserted else { continue }
      case .news(let news): guard said.insert(news).inserted else { continue }
      }
      kept.append(message)
    }
    queue = kept.reversed()
    taken = 0
    queued = [:]
    overfull = []
    subjects = 0
    for message in queue {
      switch message {
      case .asked(_, let question):
        queued[question.presenter] = nil
        overfull.remove(question.presenter)
      case .news(let news):
        subjects += 1
        queued[news.presenter, default: []].insert(news.subject)
      case .everything(let presenter): overfull.insert(presenter)
      default: break
      }
    }
    compactAt = max(Self.subjectsOfAll, 2 * queue.count)
  }

  // MARK: Out

  mutating func next() -> Message? {
    while taken < queue.count {
      let message = queue[taken]
      taken += 1
      if taken == queue.count || taken > 1000 {
        queue.removeFirst(taken)
        taken = 0
      }
      switch message {
      case .asked(let number, _): guard open.contains(number) else { continue }
      case .news(let news):
        subjects -= 1
        queued[news.presenter]?.remove(news.subject)
        if queued[news.presenter]?.isEmpty == true { queued[news.presenter] = nil }
      case .everything(let presenter): overfull.remove(presenter)
      default: break
      }
      return message
    }
    return nil
  }
}

extension PresenterNews.Kind {
  fileprivate var isOfVersion: Bool {
    switch self {
    case .moved, .changed, .changedAttributes: false
    case .gainedVersion, .lostVersion, .resolvedVersion: true
    }
  }
}
