internal import ArgumentParser
internal import ControlProtocol
internal import DaemonClient
internal import Glibc
internal import MetadataQueries

struct QueryCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "query", abstract: "Find items in mounts by name and metadata.",
    usage: "ubiquityfs query [--scope documents,data] [--within PATH]... [--watch] PREDICATE...",
    discussion: """
      PREDICATE is a name pattern such as '*.txt', or terms KEY OPERATOR VALUE joined by AND, OR, \
      NOT and parentheses: 'size > 1000000 AND isUploaded == 0', 'name LIKE[c] "*.jpg"', 'modified \
      >= "2026-01-31"'. Keys are the names in `status --json` or Apple's constants. A package is \
      one item.

      With --watch, the command runs until it is interrupted or the daemon ends. A line begins \
      with + for a new match, ~ for a changed match, and - for an item that no longer matches.
      """)

  @Option(
    help: ArgumentHelp(
      "Where to search: documents (below Documents), data (everything else), or both.",
      valueName: "documents,data"))
  var scope: String?
  @Option(
    help: ArgumentHelp(
      "A file or directory in a mount; it may not exist yet (default: all mounts).",
      valueName: "path"), completion: .file())
  var within: [String] = []
  @Flag(help: "Keep running and show each change.") var watch = false
  @Argument(help: "A name pattern, or terms of keys and values.") var predicate: [String]
  @OptionGroup var options: GlobalOptions

  func validate() throws {
    guard !predicate.isEmpty else {
      throw ValidationError("Missing expected argument '<predicate>'")
    }
    _ = try scopes()
  }

  private func scopes() throws -> [QueryScope] {
    guard let scope else { return QueryScope.allCases }
    return try scope.split(separator: ",", omittingEmptySubsequences: false).map { name in
      guard let scope = QueryScope(rawValue: String(name)) else {
        throw ValidationError("\"\(name)\" is not a scope; use documents, data or both")
      }
      return scope
    }
  }

  /// Joins several words into one predicate. A word after an operator is one value, also with
  /// spaces.
  static func text(_ words: [String]) -> String {
    guard words.count > 1 else { return words.first ?? "" }
    let operators = Set(
      ["=", "=="] + MetadataComparison.Operator.allCases.map(\.rawValue))
    var result: [String] = []
    for (index, word) in words.enumerated() {
      let before = index > 0 ? words[index - 1].prefix { $0 != "[" }.uppercased() : ""
      let isValue =
        operators.contains(before) && word.contains(where: \.isWhitespace)
        && !"'\"{(".contains(word.first ?? " ")
      result.append(isValue ? MetadataValue.quoted(word) : word)
    }
    return result.joined(separator: " ")
  }

  func run() throws {
    let parsed: QueryPredicate
    do throws(PredicateError) {
      parsed = try QueryPredicate(Self.text(predicate), form: .commandLine)
    } catch {
      throw ControlError(.usage, error.description)
    }
    if watch {
      // A signal is the normal end of this command.
      for number in [SIGTERM, SIGINT] { signal(number) { _ in _exit(0) } }
    }
    let limits = try within.map { try ItemLocator.locateFormer(RawArguments.path($0)) }
    let client = try options.connect()
    let request = QueryRequest(
      predicate: parsed.description, scopes: try scopes(), within: limits.isEmpty ? nil : limits,
      watch: watch)
    let show = QueryPrinter(isJSON: options.json, isMarked: watch)
    _ = try client.call(Methods.StartQuery.self, request, onNotification: show.notified)
    if watch { try client.listen(onNotification: show.notified) }
    try client.wait { (name, line) throws(ControlError) -> Bool in
      try show.notified(name, line)
      return show.isGathered
    }
  }
}

/// Prints the results of a query, one per line.
private final class QueryPrinter {
  private let isJSON: Bool
  private let isMarked: Bool
  private(set) var isGathered = false

  init(isJSON: Bool, isMarked: Bool) {
    self.isJSON = isJSON
    self.isMarked = isMarked
  }

  func notified(_ name: String, _ line: [UInt8]) throws(ControlError) {
    do {
      switch name {
      case Notifications.queryItems:
        for result in try Message.parameters(QueryBatch.self, in: line).items {
          try show("+", "added", result.item)
        }
      case Notifications.queryGathered:
        let end = try Message.parameters(QueryGathered.self, in: line)
        isGathered = true
        if let error = end.error {
          throw ControlError(.failed, "the result is incomplete: \(error)")
        }
      case Notifications.queryUpdated:
        let update = try Message.parameters(QueryUpdate.self, in: line)
        for result in update.added { try show("+", "added", result.item) }
        for result in update.changed { try show("~", "changed", result.item) }
        for removal in update.removed { try show("-", "removed", removal.path) }
      default: break
      }
    } catch let error as ControlError {
      throw error
    } catch {
      throw ControlError(.failed, "cannot decode the daemon's query result: \(error)")
    }
  }

  private func show(_ mark: String, _ change: String, _ item: QueryItem) throws {
    if isJSON {
      Terminal.line(
        try Terminal.json(ShownItem(change: isMarked ? change : nil, item: item)))
    } else {
      write(mark, item.path)
    }
  }

  private func show(_ mark: String, _ change: String, _ path: PathBytes) throws {
    if isJSON {
      Terminal.line(try Terminal.json(ShownRemoval(change: change, path: path)))
    } else {
      write(mark, path)
    }
  }

  /// Writes the raw bytes of the path, which may not be UTF-8.
  private func write(_ mark: String, _ path: PathBytes) {
    Terminal.write((isMarked ? Array("\(mark) ".utf8) : []) + path.bytes + [0x0A])
  }
}

private struct ShownItem: Encodable {
  var change: String?
  var item: QueryItem

  private enum CodingKeys: String, CodingKey { case change }

  func encode(to encoder: any Encoder) throws {
    try item.encode(to: encoder)
    var container = encoder.container(keyedBy: CodingKeys.self)
    try container.encodeIfPresent(change, forKey: .change)
  }
}

private struct ShownRemoval: Encodable {
  var change: String
  var path: PathBytes
}
