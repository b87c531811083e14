import Foundation
import TestWaiting
import UbiquityKit

/// `UbiquitousDocument`. Source: Apple's documentation of `UIDocument`; the iCloud Design Guide,
/// "App Responsibilities for Using iCloud Documents" and "Designing a Document File Format for
/// iCloud".
enum DocumentScenarios {
  static let all: [String: ScenarioCommand.Scenario] = [
    "document-life": life, "document-others": others, "document-package": package,
    "document-format": format, "document-download": download,
  ]

  @MainActor
  class TextDocument: UbiquitousDocument {
    var text = ""
    var loads = 0
    var errors: [NSError] = []
    var failure: NSError?
    var calls: [String] = []

    override func contents(forType typeName: String) throws -> Any {
      if let failure { throw failure }
      return Data(text.utf8)
    }

    override func load(fromContents contents: Any, ofType typeName: String?) throws {
      guard let data = contents as? Data else { throw CocoaError(.fileReadCorruptFile) }
      text = String(decoding: data, as: UTF8.self)
      loads += 1
    }

    override func handleError(_ error: any Error, userInteractionPermitted: Bool) {
      errors.append(error as NSError)
    }

    override func disableEditing() { calls.append("disable") }
    override func enableEditing() { calls.append("enable") }
    override var autosavingDelay: TimeInterval { 0.3 }

    func edit(_ new: String) {
      text = new
      updateChangeCount(.done)
    }
  }

  @MainActor
  static func until(
    _ what: String, line: Int = #line, _ condition: () throws -> Bool
  ) async throws {
    let deadline = Deadline(what, within: .seconds(60), line: line)
    while try !condition() { try await deadline.pause() }
  }

  private static func stored(_ url: URL) -> String? {
    try? String(contentsOf: url, encoding: .utf8)
  }

  /// By which a file that was written anew differs.
  private static func stamp(_ url: URL) throws -> [String] {
    let attributes = try FileManager.default.attributesOfItem(atPath: url.path)
    return ["\(attributes[.modificationDate] ?? 0)", "\(attributes[.systemFileNumber] ?? 0)"]
  }

  /// From making to closing, by itself: `document-life DIRECTORY`.
  @MainActor
  private static func life(_ arguments: [String]) async throws {
    let directory = URL(fileURLWithPath: arguments[0])
    let url = directory.appendingPathComponent("text.txt")
    let document = TextDocument(fileURL: url)
    var states: [UbiquitousDocument.State] = []
    let observer = NotificationCenter.default.addObserver(
      forName: UbiquitousDocument.stateChangedNotification, object: document, queue: nil
    ) { _ in MainActor.assumeIsolated { states.append(document.documentState) } }
    defer { NotificationCenter.default.removeObserver(observer) }

    // What is not there is not opened.
    try expect(await !document.open(), "opened what is not there")
    try expect(document.errors.map(\.code) == [260], "\(document.errors)")
    try expect(document.documentState == .closed && states.isEmpty)

    document.text = "one"
    try expect(await document.save(to: url, for: .forCreating), "\(document.errors)")
    try expect(document.documentState == .normal && states == [.normal], "\(states)")
    try expect(stored(url) == "one" && !document.hasUnsavedChanges)
    try expect(document.fileModificationDate != nil && document.localizedName == "text")
    try expect(document.fileType == "txt")
    try expect(NSFileCoordinator.filePresenters.count == 1)

    // "Enable Auto Save."
    document.edit("two")
    try expect(document.hasUnsavedChanges)
    try await until("the document is saved by itself") {
      stored(url) == "two" && !document.hasUnsavedChanges
    }

    // "Never save document state unless document content was edited."
    let before = try stamp(url)
    document.updateChangeCount(.done)
    try expect(await document.autosave() && !document.hasUnsavedChanges)
    try expect(try stamp(url) == before, "written without need")

    // What was taken back is not unsaved.
    document.updateChangeCount(.done)
    document.updateChangeCount(.undone)
    try expect(!document.hasUnsavedChanges)
    document.updateChangeCount(.done)
    document.updateChangeCount(.cleared)
    try expect(!document.hasUnsavedChanges)

    document.edit("dropped")
    try expect(await document.revert(toContentsOf: url) && document.text == "two")
    try expect(!document.hasUnsavedChanges)
    let other = directory.appendingPathComponent("other.txt")
    try Data("from elsewhere".utf8).write(to: other)
    try expect(await document.revert(toContentsOf: other) && document.hasUnsavedChanges)
    try await until("the document is saved") { stored(url) == "from elsewhere" }

    // It cannot be saved, and then it can.
    document.failure = NSError(domain: "example", code: 7)
    document.edit("three")
    try await until("the document cannot be saved") { document.documentState == .savingError }
    try expect(document.errors.last?.code == 7 && document.hasUnsavedChanges)
    try expect(await !document.close() && !document.documentState.contains(.closed))
    document.failure = nil
    try expect(await document.close())
    try expect(
      document.documentState == .closed && stored(url) == "three", "\(document.documentState)")
    try expect(NSFileCoordinator.filePresenters.isEmpty)

    // Closed means closed.
    try expect(await !document.save(to: url, for: .forOverwriting))
    try expect(await document.open() && document.text == "three", "\(document.errors)")
    let copy = directory.appendingPathComponent("copy.txt")
    try expect(await document.save(to: copy, for: .forCreating) && document.fileURL == copy)
    document.edit("four")
    try expect(await document.close(), "\(document.errors)")
    try expect(
      stored(copy) == "four" && stored(url) == "three", "\(stored(copy) ?? "") \(stored(url) ?? "")"
    )

    // Apple's forms.
    let opened: Bool = await withCheckedContinuation { continuation in
      document.open { continuation.resume(returning: $0) }
    }
    let closed: Bool = await withCheckedContinuation { continuation in
      document.close { continuation.resume(returning: $0) }
    }
    try expect(opened && closed && document.documentState == .closed)
    try expect(
      try FileManager.default.contentsOfDirectory(atPath: directory.path).sorted()
        == ["copy.txt", "other.txt", "text.txt"])
  }

  /// Other programs of this device: `document-others DIRECTORY`.
  @MainActor
  private static func others(_ arguments: [String]) async throws {
    let directory = URL(fileURLWithPath: arguments[0])
    let url = directory.appendingPathComponent("text.txt")
    let document = TextDocument(fileURL: url)
    document.text = "one"
    try expect(await document.save(to: url, for: .forCreating), "\(document.errors)")

    // Who reads gets what is unsaved.
    document.edit("two")
    let read = try await NSFileCoordinator().coordinate(readingItemAt: url) { stored($0) }
    try expect(read == "two", "\(read ?? "nil")")

    // Who writes: editing is disabled meanwhile, and what was written is loaded.
    try await NSFileCoordinator().coordinate(writingItemAt: url) { place in
      try expect(document.documentState == .editingDisabled, "\(document.documentState)")
      try Data("three".utf8).write(to: place)
    }
    try await until("what was written is loaded") {
      document.text == "three" && document.documentState == .normal
    }
    try expect(document.calls == ["disable", "enable"] && document.loads == 1, "\(document.calls)")

    // Unsaved changes are saved before the other comes, not after.
    document.edit("four")
    try await NSFileCoordinator().coordinate(writingItemAt: url) { place in
      try expect(stored(place) == "four", "\(stored(place) ?? "nil")")
      try Data("five".utf8).write(to: place)
    }
    try await until("what was written is loaded") { document.text == "five" }

    // Who does not ask: what was written stays, beside the document.
    try Data("unasked".utf8).write(to: url)
    document.edit("six")
    try await until("the document is saved") { stored(url) == "six" }
    try expect(stored(directory.appendingPathComponent("text 2.txt")) == "unasked")

    // Deletion closes it; what was unsaved was stored before.
    document.edit("seven")
    try await NSFileCoordinator().coordinate(writingItemAt: url, options: .forDeleting) { place in
      try expect(stored(place) == "seven")
      try FileManager.default.removeItem(at: place)
    }
    try await until("the document is closed") { document.documentState == .closed }
    try expect(!FileManager.default.fileExists(atPath: url.path))
    try expect(NSFileCoordinator.filePresenters.isEmpty)
  }

  @MainActor
  class Album: UbiquitousDocument {
    var wrapper = FileWrapper(directoryWithFileWrappers: [:])
    var errors: [NSError] = []
    override func contents(forType typeName: String) throws -> Any { wrapper }
    override func load(fromContents contents: Any, ofType typeName: String?) throws {
      guard let wrapper = contents as? FileWrapper else { throw CocoaError(.fileReadCorruptFile) }
      self.wrapper = wrapper
    }
    override func handleError(_ error: any Error, userInteractionPermitted: Bool) {
      errors.append(error as NSError)
    }
  }

  /// A package, of which the changed parts alone are written: `document-package PATH`.
  @MainActor
  private static func package(_ arguments: [String]) async throws {
    let url = URL(fileURLWithPath: arguments[0])
    let album = Album(fileURL: url)
    let sub = FileWrapper(directoryWithFileWrappers: [
      "deep.txt": FileWrapper(regularFileWithContents: Data("deep".utf8))
    ])
    sub.preferredFilename = "sub"
    album.wrapper.addFileWrapper(sub)
    for name in ["one.txt", "two.txt"] {
      try expect(
        album.wrapper.addRegularFile(withContents: Data(name.utf8), preferredFilename: name) == name
      )
    }
    try expect(
      album.wrapper.addRegularFile(withContents: Data("again".utf8), preferredFilename: "one.txt")
        == "one 2.txt")
    let link = FileWrapper(
      symbolicLinkWithDestinationURL: URL(fileURLWithPath: "one.txt", relativeTo: url))
    link.preferredFilename = "link"
    album.wrapper.addFileWrapper(link)
    try expect(await album.save(to: url, for: .forCreating), "\(album.errors)")
    try expect(album.wrapper.matchesContents(of: url))
    try expect(await album.close())

    let again = Album(fileURL: url)
    try expect(await again.open(), "\(again.errors)")
    let children = again.wrapper.fileWrappers ?? [:]
    try expect(children.keys.sorted() == ["link", "one 2.txt", "one.txt", "sub", "two.txt"])
    try expect(children["one 2.txt"]?.regularFileContents == Data("again".utf8))
    try expect(children["link"]?.symbolicLinkDestinationURL?.relativePath == "one.txt")
    try expect(
      children["sub"]?.fileWrappers?["deep.txt"]?.regularFileContents == Data("deep".utf8))

    // "Only changed elements are uploaded."
    func stamps() throws -> [[String]] {
      try ["one.txt", "sub/deep.txt"].map { try stamp(url.appendingPathComponent($0)) }
    }
    let before = try stamps()
    if let two = children["two.txt"] { again.wrapper.removeFileWrapper(two) }
    again.wrapper.addRegularFile(withContents: Data("new".utf8), preferredFilename: "two.txt")
    if let doubled = children["one 2.txt"] { again.wrapper.removeFileWrapper(doubled) }
    again.updateChangeCount(.done)
    try expect(await again.autosave(), "\(again.errors)")
    try expect(stored(url.appendingPathComponent("two.txt")) == "new")
    try expect(try stamps() == before, "written without need")
    try expect(
      try FileManager.default.contentsOfDirectory(atPath: url.path).sorted()
        == ["link", "one.txt", "sub", "two.txt"])
    try expect(
      try FileManager.default.contentsOfDirectory(atPath: url.deletingLastPathComponent().path)
        .filter { $0.contains("nosync") || $0.contains(" 2") }.isEmpty)

    // Of a directory that another program changed.
    try await NSFileCoordinator().coordinate(writingItemAt: url) { place in
      try Data("other".utf8).write(to: place.appendingPathComponent("three.txt"))
    }
    try await until("the new file is loaded") { again.wrapper.fileWrappers?["three.txt"] != nil }
    // A content that was replaced on the disk before it was read is none.
    let three = again.wrapper.fileWrappers?["three.txt"]
    try Data("replaced".utf8).write(to: url.appendingPathComponent("three.txt"))
    try expect(three?.regularFileContents == nil)
    // The end of a part is a change of the document, not its end.
    try await NSFileCoordinator().coordinate(
      writingItemAt: url.appendingPathComponent("three.txt"), options: .forDeleting
    ) { try FileManager.default.removeItem(at: $0) }
    try await until("the removal is loaded") { again.wrapper.fileWrappers?["three.txt"] == nil }
    try expect(again.documentState == .normal, "\(again.documentState)")
    try Data("other".utf8).write(to: url.appendingPathComponent("three.txt"))
    try expect(await again.close())
  }

  /// Says how much is in a document, and whether its download was seen: `document-download PATH`.
  @MainActor
  private static func download(_ arguments: [String]) async throws {
    let document = TextDocument(fileURL: URL(fileURLWithPath: arguments[0]))
    var states: [UbiquitousDocument.State] = []
    let observer = NotificationCenter.default.addObserver(
      forName: UbiquitousDocument.stateChangedNotification, object: document, queue: nil
    ) { _ in MainActor.assumeIsolated { states.append(document.documentState) } }
    defer { NotificationCenter.default.removeObserver(observer) }
    if await document.open() {
      let isSeen = states.contains { $0.contains(.progressAvailable) }
      CoordinatorScenarios.say("\(document.text.utf8.count) \(isSeen)")
      try expect(document.documentState == .normal, "\(document.documentState)")
      try expect(await document.close())
    } else {
      try expect(document.documentState == .closed, "\(document.documentState)")
      CoordinatorScenarios.say("not opened: \(document.errors.first?.code ?? 0)")
    }
  }

  final class Newer: TextDocument {
    override class var formatVersion: Int { 2 }
  }
  final class Older: TextDocument {
    override class var formatVersion: Int { 1 }
  }
  final class Tolerant: TextDocument {
    override class var formatVersion: Int { 1 }
    override func canEdit(formatVersion version: Int) -> Bool { true }
  }
  final class Telling: TextDocument {
    override class var formatVersion: Int { 3 }
    override func formatVersion(ofContents contents: Any) -> Int? { 4 }
  }

  /// "Use a format version number": `document-format PATH`.
  @MainActor
  private static func format(_ arguments: [String]) async throws {
    let url = URL(fileURLWithPath: arguments[0])
    let newer = Newer(fileURL: url)
    newer.text = "new"
    try expect(await newer.save(to: url, for: .forCreating))
    try expect(await newer.close())

    let older = Older(fileURL: url)
    try expect(await older.open(), "\(older.errors)")
    try expect(older.text == "new" && older.documentState == .editingDisabled)
    try expect(older.errors.count == 1 && older.calls == ["disable"], "\(older.errors)")
    try expect(older.errors[0].localizedDescription.contains("version 2"), "\(older.errors)")
    older.edit("spoilt")
    try expect(await !older.autosave() && stored(url) == "new")
    older.updateChangeCount(.cleared)
    try expect(await older.close())

    let telling = Telling(fileURL: url)
    try expect(await telling.open() && telling.documentState == .editingDisabled)
    try expect(await telling.close())

    let tolerant = Tolerant(fileURL: url)
    try expect(await tolerant.open() && tolerant.documentState == .normal)
    tolerant.edit("known")
    try expect(await tolerant.close() && stored(url) == "known")
    try expect(await older.open() && older.documentState == .normal, "\(older.errors)")
    try expect(await older.close())
  }
}
