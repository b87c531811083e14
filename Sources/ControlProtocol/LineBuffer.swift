/// Cuts a stream of bytes into lines, none longer than a limit.
package struct LineBuffer: Sendable {
  /// The contract between the two ends: a longer message is refused.
  package static let maximumLength = 1 << 20

  package enum Overflow: Error, Equatable { case lineTooLong }

  private let limit: Int
  private var bytes: [UInt8] = []
  private var start = 0
  /// What was looked at without finding a newline; so that slow senders do not cost a rescan.
  private var scanned = 0

  package init(limit: Int = LineBuffer.maximumLength) { self.limit = limit }

  package mutating func append(_ more: some Sequence<UInt8>) { bytes.append(contentsOf: more) }

  /// The next whole line without its newline; nil when there is none yet. After it throws, the
  /// stream cannot be read on: where the next message starts is unknown.
  package mutating func next() throws(Overflow) -> [UInt8]? {
    guard let newline = bytes[max(start, scanned)...].firstIndex(of: 0x0A) else {
      scanned = bytes.count
      guard bytes.count - start <= limit else { throw .lineTooLong }
      if start > 0 {
        bytes.removeFirst(start)
        scanned -= start
        start = 0
      }
      return nil
    }
    guard newline - start <= limit else { throw .lineTooLong }
    let line = Array(bytes[start..<newline])
    start = newline + 1
    scanned = start
    return line
  }
}
