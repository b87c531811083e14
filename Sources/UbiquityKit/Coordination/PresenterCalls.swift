internal import ControlProtocol
internal import Foundation
internal import Platform

/// The daemon's questions and events as calls of `NSFilePresenter`'s methods.
enum PresenterCalls {
  static func ask(_ asked: PresenterAsked, _ entry: PresenterEntry) {
    let question = asked.question
    let isAnswered = Lock(false)
    let answer: @Sendable ((any Error)?) -> Void = { error in
      let isFirst = isAnswered.withLock { isAnswered in
        defer { isAnswered = true }
        return !isAnswered
      }
      if isFirst { entry.answer(question, error) }
    }
    switch asked.request {
    case "relinquishToReader": entry.relinquish(question, toWriter: false)
    case "relinquishToWriter": entry.relinquish(question, toWriter: true)
    case "saveChanges":
      entry.call { $0.savePresentedItemChanges(completionHandler: answer) }
    case "accommodateDeletion":
      entry.call { $0.accommodatePresentedItemDeletion(completionHandler: answer) }
    case "accommodateEviction":
      entry.call { $0.accommodatePresentedItemEviction(completionHandler: answer) }
    case "accommodateSubitemDeletion":
      let url = URL(asked.path, isDirectory: false)
      entry.call {
        $0.accommodatePresentedSubitemDeletion(at: url, completionHandler: answer)
      }
    default: answer(nil)
    }
  }

  static func tell(_ told: PresenterTold, _ entry: PresenterEntry) {
    let url = URL(told.path, isDirectory: false)
    let version = told.version
    switch told.event {
    case .didMove: entry.call { $0.presentedItemDidMove(to: url) }
    case .didChange: entry.call { $0.presentedItemDidChange() }
    case .didChangeAttributes:
      entry.call { presenter in
        let observed = presenter.observedPresentedItemUbiquityAttributes
        if !observed.isEmpty { presenter.presentedItemDidChangeUbiquityAttributes(observed) }
      }
    case .didGainVersion:
      withVersion(version, url, entry) { $0.presentedItemDidGain($1) }
    case .didLoseVersion:
      withVersion(version, url, entry) { $0.presentedItemDidLose($1) }
    case .didResolveVersion:
      withVersion(version, url, entry) { $0.presentedItemDidResolveConflict($1) }
    case .subitemDidAppear: entry.call { $0.presentedSubitemDidAppear(at: url) }
    case .subitemDidMove:
      let old = URL(told.oldPath ?? told.path, isDirectory: false)
      entry.call { $0.presentedSubitem(at: old, didMoveTo: url) }
    case .subitemDidChange: entry.call { $0.presentedSubitemDidChange(at: url) }
    case .subitemDidGainVersion:
      withVersion(version, url, entry) { $0.presentedSubitem(at: url, didGain: $1) }
    case .subitemDidLoseVersion:
      withVersion(version, url, entry) { $0.presentedSubitem(at: url, didLose: $1) }
    case .subitemDidResolveVersion:
      withVersion(version, url, entry) { $0.presentedSubitem(at: url, didResolve: $1) }
    }
  }

  private static func withVersion(
    _ version: String?, _ url: URL, _ entry: PresenterEntry,
    _ body: @escaping @Sendable (any NSFilePresenter, NSFileVersion) -> Void
  ) {
    guard let version else { return }
    entry.call { body($0, NSFileVersion(told: version, of: url)) }
  }
}
