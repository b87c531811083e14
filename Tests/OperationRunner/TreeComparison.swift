internal import Glibc
internal import OperationSequences

/// Both trees from their tops, everything that a program can see.
struct TreeComparison {
  private let native: Side
  private let mounted: Side

  init(_ native: Side, _ mounted: Side) {
    self.native = native
    self.mounted = mounted
  }

  func compare() throws -> String? { try compare(Path([])) }

  private func compare(_ path: Path) throws -> String? {
    do {
      let expected = try describe(path, native)
      let actual = try describe(path, mounted)
      guard expected == actual else { return "afterwards \(path) is \(actual), native \(expected)" }
      guard expected.status.kind == .directory else { return nil }
      for name in expected.names {
        if let problem = try compare(Path(path.names + [name])) { return problem }
      }
      return nil
    } catch let refusal as Refusal {
      return "afterwards \(path): errno \(refusal.code)"
    }
  }

  private struct Item: Equatable, CustomStringConvertible {
    var status: ItemStatus
    var names: [Name] = []
    var contents: [UInt8] = []
    var attributes: [Name: [UInt8]] = [:]

    var description: String {
      "\(status) \(names) \(Outcome.brief(contents)) \(attributes.mapValues { Outcome.brief($0) })"
    }
  }

  private func describe(_ path: Path, _ side: Side) throws -> Item {
    try side.enter(path)
    var item = Item(status: side.normal(try side.status(path)))
    switch item.status.kind {
    case .directory:
      item.names = try side.list(path).filter { $0 != Name(".") && $0 != Name("..") }
    case .symbolicLink:
      item.contents = try side.target(path)
    case .file:
      item.contents = try side.contents(path)
    default:
      break
    }
    for name in try side.attributeNames(path) {
      item.attributes[name] = try side.attribute(path, name.description)
    }
    return item
  }
}

extension Side {
  /// Empties the directory of a sequence.
  func removeAll() throws {
    func removeEntries(_ path: Path) throws {
      for name in try list(path) where name != Name(".") && name != Name("..") {
        let path = Path(path.names + [name])
        if try status(path).kind == .directory {
          try removeEntries(path)
          try check(rmdir(path.text))
        } else {
          try check(unlink(path.text))
        }
      }
    }
    closeSlots()
    try enter(nil)
    do {
      try removeEntries(Path([]))
    } catch let refusal as Refusal {
      throw RunnerFailure("\(name): emptying a directory: errno \(refusal.code)")
    }
  }

  /// Of an open file, however it is open; nil of what is none.
  func contents(ofSlot number: Int) -> [UInt8]? {
    guard let slot = slots[number], let status = try? status(of: slot), status.kind == .file,
      let descriptor = try? check(Glibc.open("/proc/self/fd/\(slot)", O_RDONLY | O_CLOEXEC))
    else { return nil }
    defer { Glibc.close(descriptor) }
    var bytes = [UInt8](repeating: 0, count: 1 << 20)
    guard let count = try? check(pread(descriptor, &bytes, bytes.count, 0)) else { return nil }
    return Array(bytes[..<count])
  }

  func contents(_ path: Path) throws -> [UInt8] {
    let descriptor = try check(Glibc.open(path.text, O_RDONLY | O_CLOEXEC))
    defer { Glibc.close(descriptor) }
    var bytes = [UInt8](repeating: 0, count: 1 << 20)
    let count = try check(pread(descriptor, &bytes, bytes.count, 0))
    return Array(bytes[..<count])
  }
}
