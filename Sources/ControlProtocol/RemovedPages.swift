/// Cuts a list of removed items into reports that a message has room for each.
package struct RemovedPages: Sendable {
  /// Half of a line, so that one item more is never too much.
  private static let pageLength = LineBuffer.maximumLength / 2
  private static let longestPath = LineBuffer.maximumLength / 16

  private var length = 0
  /// The items since the last full page.
  package private(set) var last = RemovedReport(items: [])

  package init() {}

  /// The page that is full, if there is no more room for `item` in it.
  package mutating func add(_ item: ListedRemoved) -> RemovedReport? {
    let itemLength = [
      Array(item.id.utf8), Array(item.container.utf8), item.path.bytes, Array(item.kind.utf8),
      Array(item.removed.utf8), Array(item.expires.utf8), Array(item.device.utf8),
    ].reduce(60) { $0 + MessageLength.of($1) }
    var full: RemovedReport?
    if length + itemLength > Self.pageLength, !last.items.isEmpty {
      full = last
      last.items = []
      length = 0
    }
    last.items.append(item)
    length += itemLength
    return full
  }

  /// Of a path of more than 64 KiB the end, after `…/`. Such an item is brought back by its
  /// identifier.
  package static func shown(_ path: [UInt8]) -> PathBytes {
    guard path.count > longestPath else { return PathBytes(path) }
    let end = path.suffix(longestPath)
    return PathBytes(Array("…/".utf8) + end.drop { $0 != 0x2F }.dropFirst())
  }
}
