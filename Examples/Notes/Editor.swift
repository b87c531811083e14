import Foundation
import UbiquityKit

/// Commands, one a line, on a note.
@MainActor
final class Editor {
  private let note: Note

  init(_ note: Note) { self.note = note }

  nonisolated static let help = """
    show            the note
    append TEXT     a line more
    edit N TEXT     another line N
    delete N        one line less
    save            now; it is saved by itself, too
    conflicts       what other devices wrote at the same time
    keep N|current  settle the conflict
    quit
    """

  /// Until the input ends, or says so.
  func run(_ input: some AsyncSequence<String, Never>) async {
    note.onArrival = { [unowned self] in
      say("* the note was changed elsewhere")
      show()
    }
    note.onError = { [unowned self] error in say("! \(error.localizedDescription)") }
    let changes = NotificationCenter.default.addObserver(
      forName: UbiquitousDocument.stateChangedNotification, object: note, queue: nil
    ) { [unowned self] _ in
      MainActor.assumeIsolated { describeState() }
    }
    defer { NotificationCenter.default.removeObserver(changes) }
    show()
    describeState()
    for await line in input {
      let words = line.split(separator: " ", maxSplits: 1).map(String.init)
      guard let command = words.first else { continue }
      if command == "quit" { break }
      await perform(command, words.count > 1 ? words[1] : "")
    }
  }

  private func perform(_ command: String, _ rest: String) async {
    switch command {
    case "show": show()
    case "append": note.edit { $0.append(rest) }
    case "edit":
      let words = rest.split(separator: " ", maxSplits: 1).map(String.init)
      guard let index = index(words.first) else { return }
      note.edit { $0[index] = words.count > 1 ? words[1] : "" }
    case "delete":
      guard let index = index(rest) else { return }
      note.edit { $0.remove(at: index) }
    case "save": if await note.autosave() { say("saved") }
    case "conflicts": listConflicts()
    case "keep": await keep(rest)
    default: say(Self.help)
    }
  }

  private func index(_ text: String?) -> Int? {
    guard let number = text.flatMap({ Int($0) }), note.lines.indices.contains(number - 1) else {
      say("! there is no line \(text ?? "")")
      return nil
    }
    return number - 1
  }

  private func show() {
    for (index, line) in note.lines.enumerated() { say("\(index + 1)  \(line)") }
    if note.lines.isEmpty { say("(empty)") }
  }

  private func describeState() {
    if note.documentState.contains(.inConflict) {
      say("* another device wrote at the same time: see “conflicts”")
    }
    if note.documentState.contains(.closed) { say("* the note is closed") }
  }

  private func listConflicts() {
    let versions = note.otherVersions
    for (index, version) in versions.enumerated() {
      let device = version.localizedNameOfSavingComputer ?? "another device"
      say("\(index + 1)  \(device)  \(version.modificationDate?.formatted(.iso8601) ?? "")")
    }
    if versions.isEmpty { say("no conflict") }
  }

  private func keep(_ choice: String) async {
    let versions = note.otherVersions
    var version: NSFileVersion?
    if choice != "current" {
      guard let number = Int(choice), versions.indices.contains(number - 1) else {
        return say("! there is no version \(choice)")
      }
      version = versions[number - 1]
    }
    do {
      try await note.keep(version)
      say("settled")
      show()
    } catch {
      say("! \(error.localizedDescription)")
    }
  }

  private func say(_ text: String) {
    FileHandle.standardOutput.write(Data((text + "\n").utf8))
  }
}
