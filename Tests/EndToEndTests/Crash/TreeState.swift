/// What `driver show` told of a tree.
struct TreeState: Sendable {
  struct Entry: Sendable, Hashable {
    let path: String
    /// Of a file on the native directory: what it is under all its names.
    let number: String?
    /// Kind, mode, links, target, attributes: all but a file's bytes.
    let rest: String
    /// Runs of equal bytes, or what reading gave instead.
    let content: String?
  }

  let entries: [Entry]

  init(_ lines: some Sequence<Substring>) {
    entries = lines.map(Self.entry)
  }

  private static func entry(_ line: Substring) -> Entry {
    let word = line.split(separator: " ", omittingEmptySubsequences: false).map(String.init)
    guard word[0] == "f", word.count >= 6 else {
      return Entry(
        path: word.count > 1 ? word[1] : "", number: nil, rest: String(line), content: nil)
    }
    let rest = ["f", word[1], word[3], word[4]] + word[6...]
    return Entry(
      path: word[1], number: word[2], rest: rest.joined(separator: " "), content: word[5])
  }

  /// Everything but the contents.
  var names: [String] { entries.map(\.rest) }

  /// Everything.
  var all: [String] { entries.map { $0.rest + " " + ($0.content ?? "") } }

  /// What differs, for a message.
  func differences(from expected: TreeState) -> String {
    let mine = Set(all)
    let others = Set(expected.all)
    return
      (others.subtracting(mine).sorted().map { "expected: " + $0 }
      + mine.subtracting(others).sorted().map { "is:       " + $0 }).joined(separator: "\n")
  }
}

/// The bytes of a file as `driver show` writes them: `a4096,0100,`.
struct Runs {
  let bytes: [UInt8]

  /// Nil for what could not be read.
  init?(_ text: String) {
    var bytes: [UInt8] = []
    for run in text.split(separator: ",") {
      guard let letter = run.utf8.first, let count = Int(run.dropFirst()) else { return nil }
      bytes.append(contentsOf: repeatElement(letter, count: count))
    }
    self.bytes = bytes
  }

  init(bytes: [UInt8]) { self.bytes = bytes }

  /// As the driver prints it.
  var text: String {
    var result = ""
    var rest = bytes[...]
    while let byte = rest.first {
      let count = rest.prefix { $0 == byte }.count
      result += "\(UnicodeScalar(byte))\(count),"
      rest = rest.dropFirst(count)
    }
    return result
  }

  /// With `count` times `letter` written at `offset`.
  func writing(_ letter: UInt8, _ count: Int, at offset: Int) -> Runs {
    var result = bytes
    let missing = offset + count - result.count
    if missing > 0 { result += repeatElement(UInt8(ascii: "0"), count: missing) }
    result.replaceSubrange(offset..<(offset + count), with: repeatElement(letter, count: count))
    return Runs(bytes: result)
  }
}
