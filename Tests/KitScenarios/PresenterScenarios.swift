import Foundation
import Synchronization
import TestWaiting
import UbiquityKit

/// `NSFilePresenter`. Source: Apple's documentation of `NSFilePresenter`.
enum PresenterScenarios {
  static let all: [String: ScenarioCommand.Scenario] = [
    "present": present, "present-own": own, "present-refusing": refusing,
  ]

  /// Says everything that it is asked and told.
  final class Witness: NSFilePresenter, Sendable {
    private let location: Mutex<URL?>
    let presentedItemOperationQueue = OperationQueue()
    let saves: String?
    let refusal: String?
    private let heard = Mutex<[String]>([])

    init(_ url: URL, saves: String? = nil, refusal: String? = nil) {
      location = Mutex(url)
      self.saves = saves
      self.refusal = refusal
      presentedItemOperationQueue.maxConcurrentOperationCount = 4
    }

    var presentedItemURL: URL? { location.withLock { $0 } }
    var observedPresentedItemUbiquityAttributes: Set<URLResourceKey> {
      [.contentModificationDateKey]
    }
    /// What it was asked, and not what it was told.
    var words: [String] {
      heard.withLock { $0 }.filter { !$0.hasPrefix("did") && !$0.hasPrefix("subitem") }
    }

    func say(_ text: String) {
      heard.withLock { $0.append(text) }
      CoordinatorScenarios.say(text)
    }

    func relinquishPresentedItem(
      toReader reader: @escaping @Sendable ((@Sendable () -> Void)?) -> Void
    ) {
      say("relinquishToReader")
      reader { [weak self] in self?.say("reacquire") }
    }

    func relinquishPresentedItem(
      toWriter writer: @escaping @Sendable ((@Sendable () -> Void)?) -> Void
    ) {
      say("relinquishToWriter")
      writer { [weak self] in self?.say("reacquire") }
    }

    private var failure: NSError? {
      refusal.map {
        NSError(domain: "example", code: 1, userInfo: [NSLocalizedDescriptionKey: $0])
      }
    }

    func savePresentedItemChanges(completionHandler: @escaping @Sendable ((any Error)?) -> Void) {
      say("saveChanges")
      if let saves, let url = presentedItemURL {
        // Saving is a claim of its own, which does not wait for who asks.
        do {
          try NSFileCoordinator(filePresenter: self).coordinate(writingItemAt: url) {
            try Data(saves.utf8).write(to: $0)
          }
        } catch { say("not saved: \(error)") }
      }
      completionHandler(failure)
    }

    func accommodatePresentedItemDeletion(
      completionHandler: @escaping @Sendable ((any Error)?) -> Void
    ) {
      say("accommodateDeletion")
      completionHandler(failure)
    }

    func accommodatePresentedItemEviction(
      completionHandler: @escaping @Sendable ((any Error)?) -> Void
    ) {
      say("accommodateEviction")
      completionHandler(failure)
    }

    func accommodatePresentedSubitemDeletion(
      at url: URL, completionHandler: @escaping @Sendable ((any Error)?) -> Void
    ) {
      say("accommodateSubitemDeletion \(url.lastPathComponent)")
      completionHandler(failure)
    }

    func presentedItemDidMove(to newURL: URL) {
      location.withLock { $0 = newURL }
      say("didMove \(newURL.lastPathComponent)")
    }
    func presentedItemDidChange() { say("didChange") }
    func presentedItemDidChangeUbiquityAttributes(_ attributes: Set<URLResourceKey>) {
      say("didChangeUbiquityAttributes")
    }
    func presentedItemDidGain(_ version: NSFileVersion) { say("didGain") }
    func presentedItemDidLose(_ version: NSFileVersion) { say("didLose") }
    func presentedItemDidResolveConflict(_ version: NSFileVersion) { say("didResolve") }
    func presentedSubitemDidAppear(at url: URL) { say("subitemDidAppear \(url.lastPathComponent)") }
    func presentedSubitem(at oldURL: URL, didMoveTo newURL: URL) {
      say("subitemDidMove \(oldURL.lastPathComponent) \(newURL.lastPathComponent)")
    }
    func presentedSubitemDidChange(at url: URL) { say("subitemDidChange \(url.lastPathComponent)") }
    func presentedSubitem(at url: URL, didGain version: NSFileVersion) { say("subitemDidGain") }
    func presentedSubitem(at url: URL, didLose version: NSFileVersion) { say("subitemDidLose") }
    func presentedSubitem(at url: URL, didResolve version: NSFileVersion) {
      say("subitemDidResolve")
    }
  }

  /// Presents an item until its standard input ends: `present PATH [SAVES]`.
  private static func present(_ arguments: [String]) throws {
    try run(Witness(URL(fileURLWithPath: arguments[0]), saves: arguments.dropFirst().first))
  }

  /// One that cannot do what it is asked: `present-refusing PATH REASON`.
  private static func refusing(_ arguments: [String]) throws {
    try run(Witness(URL(fileURLWithPath: arguments[0]), refusal: arguments[1]))
  }

  private static func run(_ witness: Witness) throws {
    NSFileCoordinator.addFilePresenter(witness)
    try expect(NSFileCoordinator.filePresenters.contains { $0 === witness })
    CoordinatorScenarios.say("presenting")
    _ = FileHandle.standardInput.readDataToEndOfFile()
    NSFileCoordinator.removeFilePresenter(witness)
    try expect(NSFileCoordinator.filePresenters.isEmpty)
  }

  /// Coordinators of one program and its presenters: `present-own PATH`.
  private static func own(_ arguments: [String]) async throws {
    let url = URL(fileURLWithPath: arguments[0])
    let first = Witness(url)
    let second = Witness(url)
    NSFileCoordinator.addFilePresenter(first)
    NSFileCoordinator.addFilePresenter(second)
    // Once is enough.
    NSFileCoordinator.addFilePresenter(second)
    try expect(NSFileCoordinator.filePresenters.count == 2)
    func heard(_ what: String, line: Int = #line, _ condition: () -> Bool) async throws {
      do {
        try await eventually(what, within: .seconds(60), line: line) { condition() }
      } catch let timeout as WaitTimeout {
        throw Unexpected(description: "\(timeout): \(first.words) \(second.words)")
      }
    }

    // "A coordinator does not ask the presenter that it was made with."
    try await NSFileCoordinator(filePresenter: first).coordinate(writingItemAt: url) { _ in
      try expect(second.words == ["relinquishToWriter"], "\(second.words)")
    }
    try await heard("the second presenter reacquires") {
      second.words == ["relinquishToWriter", "reacquire"]
    }
    try expect(first.words.isEmpty, "\(first.words)")
    // Names and attributes alone: nobody is asked.
    try await NSFileCoordinator().coordinate(
      readingItemAt: url, options: .immediatelyAvailableMetadataOnly
    ) { _ in }
    try await NSFileCoordinator().coordinate(
      writingItemAt: url, options: .contentIndependentMetadataOnly
    ) { _ in }
    try expect(first.words.isEmpty, "\(first.words)")
    // Merging: save first. Without changes: do not.
    try await NSFileCoordinator(filePresenter: second).coordinate(
      writingItemAt: url, options: .forMerging
    ) { _ in }
    try await heard("the first presenter saves and reacquires") {
      first.words == ["relinquishToWriter", "saveChanges", "reacquire"]
    }
    try await NSFileCoordinator(filePresenter: second).coordinate(
      readingItemAt: url, options: .withoutChanges
    ) { _ in }
    try await heard("the first presenter reacquires from a reader") {
      first.words.suffix(2) == ["relinquishToReader", "reacquire"]
    }
    try await NSFileCoordinator(filePresenter: second).coordinate(
      writingItemAt: url, options: .forReplacing
    ) { _ in }
    try await heard("the first presenter accommodates the deletion") {
      first.words.suffix(2) == ["accommodateDeletion", "reacquire"]
    }
    // Removed ones are not asked any more.
    NSFileCoordinator.removeFilePresenter(first)
    let before = first.words
    try await NSFileCoordinator(filePresenter: second).coordinate(writingItemAt: url) { _ in }
    try expect(first.words == before, "\(first.words)")
    NSFileCoordinator.removeFilePresenter(second)
    try expect(NSFileCoordinator.filePresenters.isEmpty)
  }
}
