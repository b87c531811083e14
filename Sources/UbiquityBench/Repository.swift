internal import Glibc

/// A source tree with history, for git and tar: generated, the same in every run, unless one is
/// named.
enum Repository {
  static func path(_ stage: Stage, _ sizes: Sizes) throws -> String {
    if let named = stage.repository { return named }
    let path = stage.root + "/repository"
    if access(path, F_OK) == 0 { return path }
    let stream = stage.root + "/stream"
    try Bytes.write(History(files: sizes.sourceFiles).stream(), to: stream)
    try Program.run(["git", "init", "--quiet", "--initial-branch=main", path])
    try Program.run(["git", "-C", path, "fast-import", "--quiet"], input: stream)
    try Program.git("reset", "--quiet", "--hard", "main", at: path)
    unlink(stream)
    return path
  }

  /// A tar file with the tree of its last commit.
  static func archive(_ stage: Stage, _ sizes: Sizes) throws -> String {
    let archive = stage.root + "/sources.tar"
    if access(archive, F_OK) == 0 { return archive }
    try Program.git(
      "archive", "--format=tar", "--output", archive, "HEAD", at: try path(stage, sizes))
    return archive
  }

  static func extract(_ archive: String, to path: String) throws {
    guard mkdir(path, 0o755) == 0 else { throw Failure.system("mkdir", path) }
    try Program.run(["tar", "xf", archive, "-C", path])
  }

  /// The commit in the middle of the history of what is checked out at `clone`.
  static func middle(of clone: String) throws -> String {
    let text = String(
      decoding: try Program.output(["git", "-C", clone, "rev-list", "--first-parent", "HEAD"]),
      as: UTF8.self)
    let commits = text.split(separator: "\n")
    guard let commit = commits.dropFirst(commits.count / 2).first else {
      throw Failure("the repository has no commits")
    }
    return String(commit)
  }
}

/// A stream for `git fast-import`: one commit with all files, and twenty that each write a
/// twentieth of them anew, remove some and add as many.
private struct History {
  private var numbers = Numbers(seed: 4)
  private let text: [UInt8]
  private let files: Int
  private var present: [Int]
  private var result: [UInt8] = []

  init(files: Int) {
    self.files = files
    present = Array(0..<files)
    var numbers = Numbers(seed: 5)
    let words = (0..<500).map { _ in
      (0...numbers.next(below: 9)).map { _ in UInt8(97 + numbers.next(below: 26)) }
    }
    var text: [UInt8] = []
    while text.count < 1 << 20 {
      text += words[numbers.next(below: words.count)]
      text.append(numbers.next(below: 8) == 0 ? 0x0A : 0x20)
    }
    self.text = text
  }

  consuming func stream() -> [UInt8] {
    commit(0)
    for file in present { write(file) }
    let changed = max(1, files / 20)
    let replaced = max(1, files / 400)
    for number in 1...20 {
      commit(number)
      var touched: Set<Int> = []
      for _ in 0..<changed {
        let file = present[numbers.next(below: present.count)]
        if touched.insert(file).inserted { write(file) }
      }
      for new in 0..<replaced {
        let place = numbers.next(below: present.count)
        if touched.insert(present[place]).inserted { line("D \(name(present[place]))") }
        present[place] = files + number * replaced + new
        touched.insert(present[place])
        write(present[place])
      }
    }
    return result
  }

  private func name(_ file: Int) -> String { "sources/module-\(file % 40)/file-\(file).c" }

  private mutating func line(_ text: String) { result += Array(text.utf8) + [0x0A] }

  private mutating func commit(_ number: Int) {
    let who = "Bench <bench@example.org> \(1_700_000_000 + number * 3600) +0000"
    line("commit refs/heads/main")
    line("author \(who)")
    line("committer \(who)")
    line("data 7")
    line("Change")
  }

  /// From 300 bytes to 30 KB, most of them small.
  private mutating func write(_ file: Int) {
    let root = numbers.next(below: 173)
    let count = 300 + root * root
    let start = numbers.next(below: text.count - count)
    line("M 100644 inline \(name(file))")
    line("data \(count)")
    result += text[start..<start + count]
    result.append(0x0A)
  }
}
