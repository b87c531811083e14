/// A name in a directory, as bytes.
package struct Name: Hashable, Comparable, Sendable, CustomStringConvertible {
  package let bytes: [UInt8]

  package init(_ bytes: [UInt8]) { self.bytes = bytes }
  package init(_ text: String) { bytes = Array(text.utf8) }

  package static func < (left: Name, right: Name) -> Bool {
    left.bytes.lexicographicallyPrecedes(right.bytes)
  }

  package var description: String {
    guard bytes.count <= 40 else { return "(\(bytes.count) bytes)" }
    return String(validating: bytes, as: UTF8.self) ?? "(not text: \(bytes))"
  }
}

/// Where a step looks: from the top of its tree, or from a directory that a slot has open.
package struct Path: Hashable, Sendable, CustomStringConvertible {
  package var slot: Int?
  package var names: [Name]

  package init(slot: Int? = nil, _ names: [Name]) {
    self.slot = slot
    self.names = names
  }

  package var description: String {
    (slot.map { "@\($0)/" } ?? "/") + names.map(\.description).joined(separator: "/")
  }
}

/// Kinds of items that a step can ask for.
package enum NodeKind: UInt8, Hashable, Sendable, CaseIterable {
  case file = 1
  case directory = 2
  case symbolicLink = 3
  case fifo = 4
  case socket = 5
  case characterDevice = 6
  case blockDevice = 7
}

package struct OpenFlags: OptionSet, Hashable, Sendable, CustomStringConvertible {
  package let rawValue: Int
  package init(rawValue: Int) { self.rawValue = rawValue }

  package static let read = OpenFlags(rawValue: 1)
  package static let write = OpenFlags(rawValue: 2)
  package static let create = OpenFlags(rawValue: 4)
  package static let exclusive = OpenFlags(rawValue: 8)
  package static let truncate = OpenFlags(rawValue: 16)
  package static let append = OpenFlags(rawValue: 32)
  package static let directory = OpenFlags(rawValue: 64)

  package var description: String {
    let names: [(OpenFlags, String)] = [
      (.read, "r"), (.write, "w"), (.create, "creat"), (.exclusive, "excl"),
      (.truncate, "trunc"), (.append, "append"), (.directory, "directory"),
    ]
    return names.filter { contains($0.0) }.map(\.1).joined(separator: "|")
  }
}

package enum ReplaceMode: String, Hashable, Sendable {
  case replace
  case noReplace
  case exchange
}

/// What utimensat(2) is told of one time.
package enum TimeChange: Hashable, Sendable {
  case omit
  case now
  case at(Int64)
}

package enum AllocateMode: Int32, Hashable, Sendable, CaseIterable {
  case plain = 0
  case keepSize = 1
  case punchHole = 3
  case zeroRange = 16
  case zeroRangeKeepSize = 17
}

package enum AttributeFlag: Int32, Hashable, Sendable {
  case any = 0
  case create = 1
  case replace = 2
}

/// Equal bytes.
package struct Run: Hashable, Sendable, CustomStringConvertible {
  package let count: Int
  package let byte: UInt8

  package init(count: Int, byte: UInt8) {
    self.count = count
    self.byte = byte
  }

  package var bytes: [UInt8] { [UInt8](repeating: byte, count: count) }
  package var description: String { "\(count)x\(byte)" }
}

/// One system call. Slots hold what is open, files and directories alike.
package enum Operation: Hashable, Sendable {
  case open(slot: Int, Path, OpenFlags, mode: UInt16)
  case close(slot: Int)
  case makeNode(Path, NodeKind, mode: UInt16)
  case makeDirectory(Path, mode: UInt16)
  case makeSymbolicLink(target: String, Path)
  case link(Path, Path)
  case unlink(Path)
  case removeDirectory(Path)
  case rename(Path, Path, ReplaceMode)

  case write(slot: Int, offset: UInt64, count: Int, fill: UInt8)
  case read(slot: Int, offset: UInt64, count: Int)
  case truncateOpen(slot: Int, size: UInt64)
  case truncate(Path, size: UInt64)
  case allocate(slot: Int, AllocateMode, offset: UInt64, length: UInt64)
  case seekData(slot: Int, offset: UInt64)
  case seekHole(slot: Int, offset: UInt64)
  case copyRange(from: Int, at: UInt64, to: Int, newOffset: UInt64, count: Int)
  case synchronize(slot: Int)

  case changeMode(Path, UInt16)
  case changeOwner(Path, user: UInt32?, group: UInt32?)
  case changeTimes(Path, accessed: TimeChange, modified: TimeChange)
  case setAttribute(Path, String, Run, AttributeFlag)
  case getAttribute(Path, String)
  case listAttributes(Path)
  case removeAttribute(Path, String)

  case status(Path)
  case statusOpen(slot: Int)
  case fileSystemStatus(Path)
  case readLink(Path)
  /// The whole directory, from its start.
  case list(Path)
  /// At most so many entries, from where the slot's last such read ended.
  case listSome(slot: Int, count: Int)
  /// Back to where a listing of the slot had given this part of what it gave so far: 0, a half,
  /// all.
  case seekListing(slot: Int, quarters: Int)
}

/// Who does it. Group 100 is a supplementary group of neither.
package enum User: UInt32, Hashable, Sendable {
  case root = 0
  case other = 1234
}

package struct Action: Hashable, Sendable, CustomStringConvertible {
  package var user: User
  package var operation: Operation

  package init(user: User = .root, _ operation: Operation) {
    self.user = user
    self.operation = operation
  }

  package var description: String {
    // Without the module's name before each value.
    (user == .root ? "" : "as other: ")
      + "\(operation)".split(separator: "OperationSequences.").joined()
  }
}

extension Operation {
  /// The paths that it names, in their order.
  package var paths: [Path] {
    switch self {
    case .open(_, let path, _, _), .makeNode(let path, _, _), .makeDirectory(let path, _),
      .makeSymbolicLink(_, let path), .unlink(let path), .removeDirectory(let path),
      .truncate(let path, _), .changeMode(let path, _), .changeOwner(let path, _, _),
      .changeTimes(let path, _, _), .setAttribute(let path, _, _, _), .getAttribute(let path, _),
      .listAttributes(let path), .removeAttribute(let path, _), .status(let path),
      .fileSystemStatus(let path), .readLink(let path), .list(let path):
      [path]
    case .link(let from, let to), .rename(let from, let to, _):
      [from, to]
    case .close, .write, .read, .truncateOpen, .allocate, .seekData, .seekHole, .copyRange,
      .synchronize, .statusOpen, .listSome, .seekListing:
      []
    }
  }
}
