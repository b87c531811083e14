/// What a workload makes of a native directory, operation by operation; what a mount shows after a
/// crash is measured by it.
struct Model: Sendable {
  /// After each operation of the fixture and then of the workload.
  private let states: [TreeState]
  private let operations: [[String]]

  init(_ workload: Workload, shown: String) {
    var states: [TreeState] = []
    var current: [Substring] = []
    for line in shown.split(separator: "\n") {
      if line.hasPrefix("== ") {
        if line != "== 0" { states.append(TreeState(current)) }
        current = []
      } else {
        current.append(line)
      }
    }
    states.append(TreeState(current))
    self.states = states
    operations = workload.lines.map { $0.split(separator: " ").map(String.init) }
  }

  /// The state after `count` operations of the workload.
  func state(after count: Int) -> TreeState {
    states[states.count - 1 - operations.count + min(max(count, 0), operations.count)]
  }

  // MARK: The process ended

  /// The process ended when `done` operations had returned: all of them are to be there, and of the
  /// one that was under way all or nothing; of the bytes that it wrote, any part. Nil, or what is
  /// wrong.
  func judgeCrash(_ shown: TreeState, done: Int) -> String? {
    let both = [state(after: done), state(after: done + 1)]
    if both.contains(where: { $0.all == shown.all }) { return nil }
    let isWriting = done < operations.count && ["write", "map"].contains(operations[done][0])
    if isWriting, both.contains(where: { $0.names == shown.names }) {
      let files = zip(shown.entries, zip(both[0].entries, both[1].entries))
      let isRight = files.allSatisfy { entry, expected in
        guard let text = entry.content else { return true }
        return Self.wrong(text, [expected.0.content, expected.1.content].compactMap { $0 }) == nil
      }
      if isRight { return nil }
    }
    return "after \(done) operations:\n" + shown.differences(from: both[0])
  }

  // MARK: The power failed

  private static let syncing: Set<String> = ["fsync", "fdatasync", "fsyncdir", "map"]

  /// The power failed when `done` operations had returned, and perhaps one more. Names and
  /// attributes are to be those after some operation that is not before the last fsync; the bytes
  /// of each file those of its own last fsync, or of what was written to it since. Nil, or what is
  /// wrong.
  func judgePowerCut(_ shown: TreeState, done: Int) -> String? {
    let last = min(done + 1, operations.count)
    let kept = 1 + (operations.prefix(done).lastIndex { Self.syncing.contains($0[0]) } ?? -1)
    var wrong =
      "names are none of those after \(kept) to \(last) operations; with those after "
      + "\(kept):\n" + shown.differences(from: state(after: kept))
    for count in kept...last where shown.names == state(after: count).names {
      guard let bad = wrongContent(shown, count: count, done: done) else { return nil }
      wrong = bad
    }
    return "after \(done) operations: \(wrong)"
  }

  private func wrongContent(_ shown: TreeState, count: Int, done: Int) -> String? {
    let synced = syncedContents(done: done, names: count)
    for (entry, expected) in zip(shown.entries, state(after: count).entries) {
      guard let number = expected.number, let text = entry.content else { continue }
      let last = min(done + 1, operations.count)
      let versions = Set(
        (min(synced[number] ?? 0, last)...last).compactMap { content(of: number, after: $0) }
          + unnamedVersions(of: number, upTo: last))
      if let wrong = Self.wrong(text, versions) { return "\(entry.path) \(wrong)" }
    }
    return nil
  }

  /// Whether a file's bytes are each those of one of its versions, or of a hole that it had on the
  /// way.
  private static func wrong(_ text: String, _ versions: some Collection<String>) -> String? {
    if versions.contains(text) { return nil }
    guard let bytes = Runs(text)?.bytes, Set(versions).count > 1 else {
      return "is \(text), not \(versions.sorted())"
    }
    let allowed = versions.compactMap { Runs($0)?.bytes }
    let sizes = allowed.map(\.count)
    guard let least = sizes.min(), let most = sizes.max(), (least...most).contains(bytes.count)
    else { return "has \(bytes.count) bytes, not those of \(versions.sorted())" }
    for (offset, byte) in bytes.enumerated() {
      let isNew = byte == UInt8(ascii: "0") && least <= offset
      guard isNew || allowed.contains(where: { $0.count > offset && $0[offset] == byte }) else {
        return "is \(text), at \(offset) none of \(versions.sorted())"
      }
    }
    return nil
  }

  /// What was written to a file while it had no name: after the removal of its name, or before it
  /// got one. Where the power took the removal and not the bytes, or spared the name and not the
  /// bytes, it shows one of them. ext4 does it too: its fsync writes out a file's bytes, and only
  /// then what happened to names before; and a name may be on the disk before the bytes are.
  private func unnamedVersions(of number: String, upTo last: Int) -> [String] {
    var open: [String: String] = [:]
    /// By descriptor: what a file without a name held, one after the other.
    var unnamed: [String: [Runs]] = [:]
    var result: [String] = []
    for (index, word) in operations.prefix(last).enumerated() {
      let entries = state(after: index + 1).entries
      let isNamed = entries.contains { $0.number == number }
      switch word[0] {
      case "create", "open", "empty":
        open[word[1]] = entries.first { $0.path == word[2] }?.number
      case "unnamed":
        open[word[1]] = nil
        unnamed[word[1]] = [Runs(bytes: [])]
      case "name":
        open[word[1]] = entries.first { $0.path == word[2] }?.number
        if open[word[1]] == number { result += unnamed[word[1]]?.map(\.text) ?? [] }
      case "unlink", "rename":
        for (descriptor, opened) in open where opened == number && !isNamed {
          guard unnamed[descriptor] == nil,
            let bytes = content(of: number, after: index).flatMap({ Runs($0) })
          else { continue }
          unnamed[descriptor] = [bytes]
        }
      case "write":
        guard let offset = Int(word[2]), let count = Int(word[3]), let letter = word[4].utf8.first,
          let now = unnamed[word[1]]?.last, open[word[1]] == nil || !isNamed
        else { continue }
        let written = now.writing(letter, count, at: offset)
        unnamed[word[1]]?.append(written)
        if open[word[1]] == number { result.append(written.text) }
      default: break
      }
    }
    return result
  }

  private func content(of number: String, after count: Int) -> String? {
    state(after: count).entries.first { $0.number == number }?.content
  }

  /// By file: after how many operations it was last synchronised. Renaming over a file synchronises
  /// what is renamed, as ext4 does it, if the new name is seen.
  private func syncedContents(done: Int, names: Int) -> [String: Int] {
    var open: [String: String] = [:]
    var result: [String: Int] = [:]
    func number(_ path: String, after count: Int) -> String? {
      state(after: count).entries.first { $0.path == path }?.number
    }
    for (index, word) in operations.enumerated() {
      switch word[0] {
      case "create", "open", "empty", "name":
        open[word[1]] = number(word[2], after: index + 1)
      case "fsync", "fdatasync", "map":
        if index < done, let number = open[word[1]] { result[number] = index + 1 }
      case "rename":
        if index < names, number(word[2], after: index) != nil,
          let number = number(word[2], after: index + 1)
        {
          result[number] = max(result[number] ?? 0, index)
        }
      default: break
      }
    }
    return result
  }
}
