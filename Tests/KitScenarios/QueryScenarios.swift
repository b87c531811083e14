import Foundation
import TestWaiting
import UbiquityKit

/// Programs that find documents with `NSMetadataQuery`.
enum QueryScenarios {
  static let all: [String: ScenarioCommand.Scenario] = [
    "query-notes": notes, "query-list": list, "query-stream": stream, "query-values": values,
    "query-paused": paused,
  ]

  private static func say(_ text: String) {
    FileHandle.standardOutput.write(Data((text + "\n").utf8))
  }

  static func names(_ items: [Any]) -> String {
    items.compactMap {
      ($0 as? NSMetadataItem)?.value(forAttribute: NSMetadataItemFSNameKey) as? String
    }.sorted().joined(separator: " ")
  }

  private static func changes(_ notification: Notification, _ key: String) -> [NSMetadataItem] {
    notification.userInfo?[key] as? [NSMetadataItem] ?? []
  }

  /// Waits until the program is to end: the tests make a file of that name, or fail and remove its
  /// directory.
  private static func end(_ arguments: [String]) async throws {
    let files = FileManager.default
    let directory = (arguments[0] as NSString).deletingLastPathComponent
    try await eventually("the test ends the program", within: .seconds(600)) {
      files.fileExists(atPath: arguments[0]) || !files.fileExists(atPath: directory)
    }
  }

  /// A query for text files in the documents, with an observer for its end and one for updates, as
  /// a program sets it up when it has its container. Source: iOS 5 Tech Talk, "Use NSMetadataQuery
  /// to Discover Changes in the Ubiquity Container".
  static func notes(_ arguments: [String]) async throws {
    let query = NSMetadataQuery()
    query.searchScopes = [NSMetadataQueryUbiquitousDocumentsScope]
    query.predicate = MetadataPredicate(format: "NSMetadataItemFSNameKey == '*.txt'")
    query.notificationBatchingInterval = 0.1
    let center = NotificationCenter.default
    var observers: [any NSObjectProtocol] = []
    for (name, mark) in [
      (Notification.Name.NSMetadataQueryDidStartGathering, "started"),
      (.NSMetadataQueryDidFinishGathering, "finished"),
    ] {
      observers.append(
        center.addObserver(forName: name, object: query, queue: nil) { notification in
          guard let query = notification.object as? NSMetadataQuery,
            OperationQueue.current === OperationQueue.main
          else {
            return say("not on the main queue")
          }
          say("\(mark) \(query.resultCount) \(names(query.results))")
        })
    }
    observers.append(
      center.addObserver(forName: .NSMetadataQueryDidUpdate, object: query, queue: nil) {
        notification in
        for (key, mark) in [
          (NSMetadataQueryUpdateAddedItemsKey, "+"), (NSMetadataQueryUpdateChangedItemsKey, "~"),
          (NSMetadataQueryUpdateRemovedItemsKey, "-"),
        ] {
          let items = changes(notification, key)
          if !items.isEmpty { say("\(mark) \(names(items))") }
        }
      })
    try expect(query.start() && query.isStarted && query.isGathering)
    try expect(!query.start(), "a query that runs cannot be started")
    try await end(arguments)
    try expect(!query.isGathering)
    query.stop()
    try expect(query.isStopped)
    for observer in observers { center.removeObserver(observer) }
  }

  /// The list of a program's documents: kept up to date while it is shown, with a mark for what is
  /// not here. Source: WWDC 2012, session 209, on the live query; iCloud Design Guide, "Working
  /// with iCloud Documents".
  static func list(_ arguments: [String]) async throws {
    let query = NSMetadataQuery()
    query.searchScopes = [NSMetadataQueryUbiquitousDocumentsScope]
    query.predicate = MetadataPredicate(format: "%K LIKE '*'", NSMetadataItemFSNameKey)
    query.sortDescriptors = [.init(key: NSMetadataItemFSNameKey)]
    query.notificationBatchingInterval = 0.05
    let queue = OperationQueue()
    queue.maxConcurrentOperationCount = 1
    query.operationQueue = queue
    let show: @Sendable (Notification) -> Void = { notification in
      guard let query = notification.object as? NSMetadataQuery else { return }
      query.disableUpdates()
      defer { query.enableUpdates() }
      var lines: [String] = []
      for case let item as NSMetadataItem in query.results {
        let status = item.value(forAttribute: NSMetadataUbiquitousItemDownloadingStatusKey)
        let isHere = status as? String == NSMetadataUbiquitousItemDownloadingStatusCurrent
        let name = item.value(forAttribute: NSMetadataItemDisplayNameKey) as? String ?? "?"
        lines.append(name + (isHere ? "" : "(cloud)"))
      }
      say("shown \(lines.joined(separator: " "))")
    }
    let center = NotificationCenter.default
    let observers = [
      Notification.Name.NSMetadataQueryDidFinishGathering, .NSMetadataQueryDidUpdate,
    ].map { center.addObserver(forName: $0, object: query, queue: nil, using: show) }
    query.start()
    try await end(arguments)
    query.stop()
    for observer in observers { center.removeObserver(observer) }
  }

  /// Updates as a sequence; through the end of the daemon.
  static func stream(_ arguments: [String]) async throws {
    let query = NSMetadataQuery()
    query.predicate = try MetadataPredicate(parsing: "name LIKE '*.txt'")
    query.notificationBatchingInterval = 0.05
    let updates = query.updates
    query.start()
    let listening = Task {
      // Held, so that no other object gets the place of one that is gone.
      var known: [ObjectIdentifier: NSMetadataItem] = [:]
      for await update in updates {
        let marks = [("+", update.added), ("~", update.changed), ("-", update.removed)]
        for (mark, items) in marks {
          for item in items {
            // The same object as before, whatever has become of it.
            let isKnown = known[ObjectIdentifier(item)] != nil
            known[ObjectIdentifier(item)] = item
            say("\(update.phase) \(mark) \(names([item])) \(isKnown ? "known" : "new")")
          }
        }
        say("count \(query.resultCount)")
      }
    }
    try await end(arguments)
    query.stop()
    listening.cancel()
  }

  /// What the attributes of a file are, and of what types.
  static func values(_ arguments: [String]) async throws {
    let query = NSMetadataQuery()
    query.searchScopes = [URL(fileURLWithPath: arguments[0], isDirectory: true)]
    query.predicate = MetadataPredicate(
      format: "%K == %@ AND %K > %d", NSMetadataItemFSNameKey, "a b.txt", NSMetadataItemFSSizeKey, 1
    )
    try expect(query.predicate?.predicateFormat == "name == 'a b.txt' AND size > 1")
    let updates = query.updates
    query.start()
    for await update in updates where update.phase == .gathered { break }
    try expect(query.resultCount == 1, "\(query.resultCount)")
    // Who listens later is told of it as well.
    for await update in query.updates {
      try expect(update.phase == .gathered && names(update.added) == "a b.txt")
      break
    }
    guard let item = query.result(at: 0) as? NSMetadataItem else {
      throw Unexpected(description: "no item")
    }
    try expect(query.index(ofResult: item) == 0)
    try expect(query.index(ofResult: NSObject()) == NSNotFound)
    func value<Value>(_ key: String, _: Value.Type = Value.self) throws -> Value {
      guard let value = item.value(forAttribute: key) as? Value else {
        throw Unexpected(
          description: "\(key): \(String(describing: item.value(forAttribute: key)))")
      }
      return value
    }
    let path = arguments[0] + "/a b.txt"
    try expect(value(NSMetadataItemFSNameKey) == "a b.txt")
    try expect(value(NSMetadataItemPathKey) == path)
    try expect(value(NSMetadataItemURLKey, URL.self) == URL(fileURLWithPath: path))
    try expect(value(NSMetadataItemFSSizeKey) == 6)
    try expect(value(NSMetadataItemFSSizeKey, NSNumber.self).intValue == 6)
    try expect(value(NSMetadataItemIsUbiquitousKey) == true)
    try expect(value(NSMetadataUbiquitousItemIsUploadedKey, NSNumber.self).boolValue)
    try expect(value(NSMetadataUbiquitousItemIsUploadedKey) == true)
    try expect(value(NSMetadataUbiquitousItemPercentUploadedKey, Double.self) == 100)
    try expect(value(NSMetadataUbiquitousItemHasUnresolvedConflictsKey) == false)
    try expect(
      value(NSMetadataUbiquitousItemDownloadingStatusKey)
        == NSMetadataUbiquitousItemDownloadingStatusCurrent)
    let changed: Date = try value(NSMetadataItemFSContentChangeDateKey)
    let attributes = try FileManager.default.attributesOfItem(atPath: path)
    let modified = attributes[.modificationDate] as? Date ?? .distantPast
    try expect(abs(changed.timeIntervalSince(modified)) < 0.001, "\(changed) \(modified)")
    try expect(item.value(forAttribute: NSMetadataUbiquitousItemDownloadingErrorKey) == nil)
    try expect(item.value(forAttribute: "nothing") == nil)
    try expect(item.attributes.contains(NSMetadataItemFSNameKey))
    try expect(
      item.values(forAttributes: [NSMetadataItemFSNameKey, "nothing"])?.keys.sorted()
        == [NSMetadataItemFSNameKey])
    query.stop()
    // Where nothing can be looked for it ends too, and says why.
    query.searchScopes = [URL(fileURLWithPath: "/usr")]
    query.start()
    for await update in query.updates where update.phase == .gathered { break }
    try expect(query.error != nil && query.resultCount == 0)
    try expect(!NSMetadataQuery().start(), "nothing was asked for")
    do {
      _ = try MetadataPredicate(parsing: "sise > 1")
      throw Unexpected(description: "a wrong predicate was taken")
    } catch let error as MetadataPredicate.FormatError {
      try expect(error.offset == 0 && error.description.contains("sise"))
    }
  }

  /// While updates are disabled the results stay; then all comes at once.
  static func paused(_ arguments: [String]) async throws {
    let query = NSMetadataQuery()
    query.predicate = MetadataPredicate(format: "name LIKE '*.txt'")
    query.notificationBatchingInterval = 0
    let updates = query.updates
    query.start()
    var iterator = updates.makeAsyncIterator()
    while let update = await iterator.next(), update.phase != .gathered {}
    query.disableUpdates()
    let before = names(query.results)
    for number in 1...20 {
      try Data("x".utf8).write(to: URL(fileURLWithPath: arguments[0] + "/\(number).txt"))
    }
    try FileManager.default.removeItem(atPath: arguments[0] + "/1.txt")
    // As long as another query needs to see all of it.
    let other = NSMetadataQuery()
    other.predicate = MetadataPredicate(format: "name == '20.txt' AND isUploaded == TRUE")
    let seen = other.updates
    other.start()
    for await _ in seen where other.resultCount == 1 { break }
    try expect(names(query.results) == before, names(query.results))
    query.enableUpdates()
    while query.resultCount < 19 + before.split(separator: " ").count {
      guard await iterator.next() != nil else { break }
    }
    try expect(!names(query.results).split(separator: " ").contains("1.txt"), names(query.results))
    query.stop()
    other.stop()
  }
}
