import Foundation
import UbiquityKit

/// An editor for notes in a ubiquity container: `notes-example FILE`.
@main
enum NotesExample {
  static func main() async {
    guard let path = CommandLine.arguments.dropFirst().first else {
      print("usage: notes-example FILE\n\(Editor.help)")
      exit(2)
    }
    let isClosed = await edit(URL(fileURLWithPath: path))
    exit(isClosed ? 0 : 1)
  }

  @MainActor
  private static func edit(_ url: URL) async -> Bool {
    let note = Note(fileURL: url)
    note.onError = { print("! \($0.localizedDescription)") }
    // A note that is not there yet is made.
    let isThere = FileManager.default.fileExists(atPath: url.path)
    guard await isThere ? note.open() : note.save(to: url, for: .forCreating) else { return false }
    await Editor(note).run(lines())
    return await note.close()
  }

  /// The lines of the standard input, read on a thread of their own.
  private static func lines() -> AsyncStream<String> {
    AsyncStream { continuation in
      Thread.detachNewThread {
        while let line = readLine() { continuation.yield(line) }
        continuation.finish()
      }
    }
  }
}
