import Foundation
import UbiquityKit

/// `NSFileCoordinator`. Source: Apple's documentation of `NSFileCoordinator` and of its options.
enum CoordinatorScenarios {
  static let all: [String: ScenarioCommand.Scenario] = [
    "coordinate": coordinate, "coordinate-options": options, "coordinate-nested": nested,
    "coordinate-hold": hold,
    "coordinate-wait": wait, "coordinate-cancel": cancel, "coordinate-error": failing,
    "coordinate-batches": batches, "coordinate-tasks": tasks,
  ]

  private static func url(_ arguments: [String], _ index: Int = 0) throws -> URL {
    try expect(arguments.count > index, "an argument is missing")
    return URL(fileURLWithPath: arguments[index])
  }

  static func say(_ text: String) {
    FileHandle.standardOutput.write(Data((text + "\n").utf8))
  }

  static func code(_ error: (any Error)?) -> Int { (error as NSError?)?.code ?? 0 }

  /// Every form, on a directory of a mount: `coordinate DIRECTORY OUTSIDE`.
  private static func coordinate(_ arguments: [String]) throws {
    let directory = try url(arguments)
    let file = directory.appendingPathComponent("file")
    let other = directory.appendingPathComponent("other")
    let coordinator = NSFileCoordinator()
    var error: NSError?

    // "The item need not be there yet."
    coordinator.coordinate(writingItemAt: file, options: .forReplacing, error: &error) { url in
      try? Data("one".utf8).write(to: url)
    }
    try expect(error == nil, "\(String(describing: error))")
    var read: Data?
    for options: NSFileCoordinator.ReadingOptions in [
      [], .withoutChanges, .immediatelyAvailableMetadataOnly,
    ] {
      coordinator.coordinate(readingItemAt: file, options: options, error: &error) { url in
        read = try? Data(contentsOf: url)
      }
      try expect(error == nil && read == Data("one".utf8), "\(String(describing: error))")
    }
    for options: NSFileCoordinator.WritingOptions in [
      [], .forDeleting, .forMoving, .forMerging, .forReplacing, .contentIndependentMetadataOnly,
    ] {
      let wrote = try coordinator.coordinate(writingItemAt: file, options: options) { url in
        try Data("two".utf8).write(to: url)
        return url
      }
      try expect(wrote == file, "\(wrote)")
    }
    coordinator.coordinate(readingItemAt: file, writingItemAt: other, error: &error) { from, to in
      try? Data(contentsOf: from).write(to: to)
    }
    try expect(error == nil && (try Data(contentsOf: other)) == Data("two".utf8))
    // Moving: both places at once, and the coordinator says so.
    let moved = directory.appendingPathComponent("moved")
    try coordinator.coordinate(
      writingItemAt: other, options: .forMoving, writingItemAt: moved, options: .forReplacing
    ) { from, to in
      coordinator.item(at: from, willMoveTo: to)
      try FileManager.default.moveItem(at: from, to: to)
      coordinator.item(at: from, didMoveTo: to)
    }
    try expect(FileManager.default.fileExists(atPath: moved.path))

    // "The claim is released when the accessor returns", also by throwing; the next is of another
    // purpose.
    struct Thrown: Error {}
    do {
      try coordinator.coordinate(writingItemAt: file) { _ in throw Thrown() }
      try expect(false, "nothing was thrown")
    } catch is Thrown {}
    try NSFileCoordinator().coordinate(writingItemAt: file) { _ in }

    // What is not there, and what can have no name there.
    var ran = false
    let missing = directory.appendingPathComponent("missing")
    coordinator.coordinate(readingItemAt: missing, error: &error) { _ in ran = true }
    try expect(
      error?.domain == NSCocoaErrorDomain && error?.code == 260, "\(String(describing: error))")
    error = nil
    coordinator.coordinate(
      writingItemAt: missing.appendingPathComponent("below"), error: &error
    ) { _ in ran = true }
    try expect(error?.code == 4 && !ran, "\(String(describing: error))")

    // Outside of containers there is no claim.
    let outside = try url(arguments, 1)
    let text = try coordinator.coordinate(writingItemAt: outside) { url in
      try Data("outside".utf8).write(to: url)
      return try coordinator.coordinate(readingItemAt: url) {
        try String(contentsOf: $0, encoding: .utf8)
      }
    }
    try expect(text == "outside")
  }

  /// Links that are resolved, and copies that stay as they are: `coordinate-options DIRECTORY`, in
  /// which `link` leads to `dir/file`.
  private static func options(_ arguments: [String]) throws {
    let directory = try url(arguments)
    let link = directory.appendingPathComponent("link")
    let coordinator = NSFileCoordinator()
    let plain = try coordinator.coordinate(readingItemAt: link) { $0.lastPathComponent }
    try expect(plain == "link", plain)
    let resolved = try coordinator.coordinate(readingItemAt: link, options: .resolvesSymbolicLink) {
      $0.path
    }
    try expect(resolved == directory.appendingPathComponent("dir/file").path, resolved)
    let file = directory.appendingPathComponent("dir/file")
    let before = try Data(contentsOf: file)
    try coordinator.coordinate(readingItemAt: file, options: .forUploading) { copy in
      try expect(copy.path != file.path, copy.path)
      // "The claim is released": another may write meanwhile.
      let other = NSFileCoordinator()
      let done = DispatchSemaphore(value: 0)
      Thread.detachNewThread {
        try? other.coordinate(writingItemAt: file) { try Data("changed".utf8).write(to: $0) }
        done.signal()
      }
      try expect(done.wait(timeout: .now() + 30) == .success, "it is still claimed")
      try expect(try Data(contentsOf: copy) == before, "the copy changed")
    }
    try expect(try Data(contentsOf: file) == Data("changed".utf8))
    let archive = try coordinator.coordinate(
      readingItemAt: directory.appendingPathComponent("dir"), options: .forUploading
    ) { try Data(contentsOf: $0).prefix(2) }
    try expect(archive == Data("PK".utf8))
  }

  /// What an accessor claims never waits for it, whoever coordinates: `coordinate-nested
  /// DIRECTORY`.
  private static func nested(_ arguments: [String]) throws {
    let directory = try url(arguments)
    let file = directory.appendingPathComponent("file")
    let coordinator = NSFileCoordinator()
    let depth = try coordinator.coordinate(writingItemAt: directory) { _ in
      try NSFileCoordinator().coordinate(readingItemAt: file) { _ in
        try NSFileCoordinator().coordinate(writingItemAt: file, options: .forDeleting) { url in
          try coordinator.coordinate(readingItemAt: directory) { _ in
            try FileManager.default.removeItem(at: url)
            return 4
          }
        }
      }
    }
    try expect(depth == 4)
    // Of one purpose, on two threads.
    let other = NSFileCoordinator()
    other.purposeIdentifier = coordinator.purposeIdentifier
    let given = DispatchSemaphore(value: 0)
    try coordinator.coordinate(writingItemAt: file) { _ in
      Thread.detachNewThread {
        _ = try? other.coordinate(writingItemAt: file) { _ in given.signal() }
      }
      try expect(given.wait(timeout: .now() + 30) == .success, "one purpose waited for itself")
    }
  }

  /// Holds a claim until its standard input ends: `coordinate-hold read|write PATH`.
  private static func hold(_ arguments: [String]) throws {
    let path = try url(arguments, 1)
    let body: (URL) throws -> Void = { url in
      say("holding \(url.path)")
      _ = FileHandle.standardInput.readDataToEndOfFile()
    }
    if arguments[0] == "read" {
      try NSFileCoordinator().coordinate(readingItemAt: path, byAccessor: body)
    } else {
      try NSFileCoordinator().coordinate(writingItemAt: path, byAccessor: body)
    }
  }

  /// Waits for its turn and says where the item is then: `coordinate-wait PATH`.
  private static func wait(_ arguments: [String]) throws {
    let path = try url(arguments)
    say("waiting")
    try NSFileCoordinator().coordinate(writingItemAt: path) { say("given \($0.path)") }
  }

  /// Gives up what somebody else holds, from another thread and by a task's end: `coordinate-cancel
  /// PATH`.
  private static func cancel(_ arguments: [String]) async throws {
    let path = try url(arguments)
    let coordinator = NSFileCoordinator()
    let canceller = cancelling(coordinator)
    let code: Int = await withCheckedContinuation { continuation in
      Thread.detachNewThread {
        var error: NSError?
        coordinator.coordinate(writingItemAt: path, error: &error) { _ in }
        continuation.resume(returning: error?.code ?? 0)
      }
    }
    canceller.cancel()
    await canceller.value
    try expect(code == 3072, "\(code)")
    let task = Task { try await NSFileCoordinator().coordinate(writingItemAt: path) { _ in } }
    // Nothing tells that the claim waits. It is given up also if it has not begun to wait.
    try await Task.sleep(for: .milliseconds(300))
    task.cancel()
    do {
      try await task.value
      try expect(false, "it was given")
    } catch let error as NSError {
      try expect(error.code == 3072, "\(error)")
    }
  }

  /// Gives up what a coordinator waits for, until the task is cancelled. Once is not enough: a
  /// claim that has not begun to wait cannot be given up.
  private static func cancelling(_ coordinator: NSFileCoordinator) -> Task<Void, Never> {
    Task.detached {
      while !Task.isCancelled {
        try? await Task.sleep(for: .milliseconds(300))
        coordinator.cancel()
      }
    }
  }

  /// Says with what code a claim for reading ends: `coordinate-error PATH`.
  private static func failing(_ arguments: [String]) throws {
    var error: NSError?
    try NSFileCoordinator().coordinate(readingItemAt: url(arguments), error: &error) { _ in }
    say("\(error?.code ?? 0) \(error?.localizedDescription ?? "")")
  }

  /// `prepare`, and intents on a queue: `coordinate-batches DIRECTORY`.
  private static func batches(_ arguments: [String]) async throws {
    let directory = try url(arguments)
    let files = ["one", "two", "three"].map(directory.appendingPathComponent)
    let coordinator = NSFileCoordinator()
    var error: NSError?
    var completion: (@Sendable () -> Void)?
    var within: NSError?
    coordinator.prepare(forReadingItemsAt: [], writingItemsAt: files, error: &error) { end in
      for file in files {
        var inner: NSError?
        coordinator.coordinate(writingItemAt: file, error: &inner) { url in
          try? Data(file.lastPathComponent.utf8).write(to: url)
        }
        if inner != nil { within = inner }
      }
      completion = end
    }
    try expect(error == nil && within == nil, "\(String(describing: error ?? within))")
    // Not over yet: another has to wait, on whatever thread; this coordinator does not.
    let other = NSFileCoordinator()
    let waiting = Task.detached { try await other.coordinate(writingItemAt: files[2]) { _ in } }
    // Nothing tells that the other claim waits. A claim that begins later waits, too.
    try await Task.sleep(for: .milliseconds(300))
    try await coordinator.coordinate(writingItemAt: files[2]) { _ in }
    let canceller = cancelling(other)
    do {
      try await waiting.value
      try expect(false, "it did not wait")
    } catch let error as NSError {
      try expect(error.code == 3072, "\(error)")
    }
    canceller.cancel()
    await canceller.value
    completion?()
    try await other.coordinate(writingItemAt: files[2]) { _ in }

    let intents = [
      NSFileAccessIntent.readingIntent(with: files[0]),
      NSFileAccessIntent.writingIntent(with: files[1], options: .forReplacing),
    ]
    let queue = OperationQueue()
    let failure: (any Error)? = await withCheckedContinuation { continuation in
      coordinator.coordinate(with: intents, queue: queue) { error in
        if error == nil {
          try? Data(contentsOf: intents[0].url).write(to: intents[1].url)
        }
        continuation.resume(returning: error)
      }
    }
    try expect(failure == nil, "\(String(describing: failure))")
    try expect(try Data(contentsOf: files[1]) == Data("one".utf8))
    let text = try await NSFileCoordinator().coordinate(with: intents) {
      try String(contentsOf: intents[1].url, encoding: .utf8)
    }
    try expect(text == "one")
  }

  /// Many tasks that count in one file, each reading and writing under a claim: `coordinate-tasks
  /// PATH`.
  private static func tasks(_ arguments: [String]) async throws {
    let path = try url(arguments)
    try await withThrowingTaskGroup(of: Void.self) { group in
      for _ in 0..<40 {
        group.addTask {
          try await NSFileCoordinator().coordinate(writingItemAt: path) { url in
            let before = try String(contentsOf: url, encoding: .utf8)
            await Task.yield()
            try await NSFileCoordinator().coordinate(writingItemAt: url) { inner in
              try Data("\((Int(before) ?? 0) + 1)".utf8).write(to: inner)
            }
          }
        }
      }
      try await group.waitForAll()
    }
  }
}
