/// What a step gave.
package enum Outcome: Hashable, Sendable, CustomStringConvertible {
  /// An errno.
  case failed(Int32)
  case done
  case number(Int64)
  case bytes([UInt8])
  /// Names in the order in which they came.
  case names([Name])
  case status(ItemStatus)

  package var description: String {
    switch self {
    case .failed(let code): "errno \(code)"
    case .done: "done"
    case .number(let number): "\(number)"
    case .bytes(let bytes): "\(bytes.count) bytes: \(Self.brief(bytes))"
    case .names(let names): "\(names.map(\.description))"
    case .status(let status): "\(status)"
    }
  }

  /// Runs of equal bytes.
  package static func brief(_ bytes: [UInt8]) -> String {
    var runs: [String] = []
    var start = 0
    for index in 1...max(1, bytes.count) where index >= bytes.count || bytes[index] != bytes[start]
    {
      guard start < bytes.count else { break }
      runs.append("\(index - start)x\(bytes[start])")
      start = index
      if runs.count > 20 { return runs.joined(separator: " ") + " ..." }
    }
    return runs.joined(separator: " ")
  }
}

/// What stat(2) tells that has to be the same everywhere.
package struct ItemStatus: Hashable, Sendable {
  package var number: UInt64
  package var kind: NodeKind
  package var mode: UInt16
  package var links: UInt64
  package var user: UInt32
  package var group: UInt32
  package var size: UInt64
  package var device: UInt64
  package var accessed: Int64
  package var modified: Int64
  package var changed: Int64

  package init(
    number: UInt64, kind: NodeKind, mode: UInt16, links: UInt64, user: UInt32, group: UInt32,
    size: UInt64, device: UInt64, accessed: Int64, modified: Int64, changed: Int64
  ) {
    self.number = number
    self.kind = kind
    self.mode = mode
    self.links = links
    self.user = user
    self.group = group
    self.size = size
    self.device = device
    self.accessed = accessed
    self.modified = modified
    self.changed = changed
  }
}
