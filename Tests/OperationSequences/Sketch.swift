/// What probably is there after the steps so far: enough for most steps to meet something. That it
/// is wrong now and then, where a step was refused, does no harm.
struct Sketch {
  struct Item {
    var names: [Name]
    var kind: NodeKind
  }

  struct Slot {
    var isDirectory: Bool
    var flags: OpenFlags
    var names: [Name]
  }

  private(set) var items: [Item] = []
  private(set) var slots: [Int: Slot] = [:]

  var directories: [[Name]] { [[]] + items.filter { $0.kind == .directory }.map(\.names) }

  func kind(_ names: [Name]) -> NodeKind? {
    names.isEmpty ? .directory : items.first { $0.names == names }?.kind
  }

  /// The path from the top of what a path means; nil where it means nothing.
  func resolve(_ path: Path) -> [Name]? {
    guard let number = path.slot else { return path.names }
    guard let slot = slots[number], slot.isDirectory else { return nil }
    return slot.names + path.names
  }

  mutating func add(_ path: Path, _ kind: NodeKind) {
    guard let names = resolve(path), self.kind(names) == nil, !names.isEmpty,
      self.kind(names.dropLast()) == .directory, names.allSatisfy({ $0.bytes.count <= 255 })
    else { return }
    items.append(Item(names: names, kind: kind))
  }

  mutating func remove(_ path: Path, isDirectory: Bool) {
    guard let names = resolve(path), let kind = kind(names), !names.isEmpty,
      (kind == .directory) == isDirectory, !items.contains(where: { $0.names.dropLast() == names })
    else { return }
    items.removeAll { $0.names == names }
  }

  mutating func rename(_ from: Path, _ to: Path, _ mode: ReplaceMode) {
    guard let old = resolve(from), let new = resolve(to), kind(old) != nil, old != new,
      !new.starts(with: old), !old.starts(with: new), kind(new.dropLast()) == .directory
    else { return }
    let target = kind(new)
    switch mode {
    case .noReplace:
      guard target == nil else { return }
    case .exchange:
      guard target != nil else { return }
    case .replace:
      if let target {
        guard (target == .directory) == (kind(old) == .directory) else { return }
        items.removeAll { $0.names == new }
      }
    }
    for index in items.indices {
      items[index].names = Self.moved(items[index].names, old, new, isExchange: mode == .exchange)
    }
    for (number, slot) in slots {
      slots[number]?.names = Self.moved(slot.names, old, new, isExchange: mode == .exchange)
    }
  }

  private static func moved(_ names: [Name], _ old: [Name], _ new: [Name], isExchange: Bool)
    -> [Name]
  {
    if names.starts(with: old) { return new + names.dropFirst(old.count) }
    if isExchange, names.starts(with: new) { return old + names.dropFirst(new.count) }
    return names
  }

  mutating func open(_ number: Int, _ path: Path, _ flags: OpenFlags) {
    let names = resolve(path)
    slots[number] = nil
    guard let names else { return }
    let found = kind(names)
    if found == nil, flags.contains(.create) { add(Path(names), .file) }
    guard let kind = kind(names), kind == .file || kind == .directory,
      !(found != nil && flags.contains(.exclusive)),
      (kind == .directory) == flags.contains(.directory)
    else { return }
    slots[number] = Slot(isDirectory: kind == .directory, flags: flags, names: names)
  }

  mutating func close(_ number: Int) { slots[number] = nil }
}
