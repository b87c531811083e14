package import Model

/// What became of one item when changes of other devices were applied here.
package struct ItemChange: Hashable, Sendable {
  package enum What: Hashable, Sendable {
    case created
    /// The content, or the target of a link.
    case changed
    /// From this name in this directory.
    case moved(from: InodeNumber, as: ItemName)
    case removed
    /// Mode, the user's attributes, times that were set, or whether a directory is a package.
    case attributes
  }

  package let what: What
  /// As it is now; of what was removed, as it was. A file that was open and got another content has
  /// another one than before.
  package let number: InodeNumber
  package let kind: ItemKind
  package let item: ItemID
  /// Where it is now, or where it was removed. Of several names the first.
  package let parent: InodeNumber
  package let name: ItemName

  package init(
    _ what: What, number: InodeNumber, kind: ItemKind, item: ItemID, parent: InodeNumber,
    name: ItemName
  ) {
    self.what = what
    self.number = number
    self.kind = kind
    self.item = item
    self.parent = parent
    self.name = name
  }
}

/// Gathers what a batch does, item by item, and tells it at the end: an item that lost one name and
/// got another was moved.
struct ChangeCollector {
  private struct Facts {
    var number: InodeNumber
    let kind: ItemKind
    var lost: [(parent: InodeNumber, name: ItemName)] = []
    var gained: [(parent: InodeNumber, name: ItemName)] = []
    var isMade = false
    var isChanged = false
    var hasOtherAttributes = false
  }

  private var order: [ItemID] = []
  private var facts: [ItemID: Facts] = [:]

  private mutating func note(_ inode: Inode, _ body: (inout Facts) -> Void) {
    if facts[inode.item] == nil { order.append(inode.item) }
    body(&facts[inode.item, default: Facts(number: inode.number, kind: inode.kind)])
  }

  mutating func made(_ inode: Inode) { note(inode) { $0.isMade = true } }

  mutating func lost(_ inode: Inode, _ parent: InodeNumber, _ name: ItemName) {
    note(inode) { $0.lost.append((parent, name)) }
  }

  mutating func gained(_ inode: Inode, _ parent: InodeNumber, _ name: ItemName) {
    note(inode) { $0.gained.append((parent, name)) }
  }

  mutating func changed(_ inode: Inode) { note(inode) { $0.isChanged = true } }

  func isChanged(_ item: ItemID) -> Bool { facts[item]?.isChanged ?? false }

  mutating func changedAttributes(_ inode: Inode) { note(inode) { $0.hasOtherAttributes = true } }

  /// The item's content went to another inode.
  mutating func succeeded(_ inode: Inode, by successor: InodeNumber) {
    note(inode) { $0.number = successor }
  }

  /// In an order that a watcher can follow. `place` gives the first name that an inode has now.
  func changes(
    _ place: (InodeNumber) throws -> (parent: InodeNumber, name: ItemName)?
  ) rethrows -> [ItemChange] {
    var names: [ItemChange] = []
    var others: [ItemChange] = []
    for item in order {
      guard let facts = facts[item] else { continue }
      func change(_ what: ItemChange.What, _ parent: InodeNumber, _ name: ItemName) -> ItemChange {
        ItemChange(
          what, number: facts.number, kind: facts.kind, item: item, parent: parent, name: name)
      }
      let moves = min(facts.lost.count, facts.gained.count)
      for (old, new) in zip(facts.lost, facts.gained) {
        names.append(change(.moved(from: old.parent, as: old.name), new.parent, new.name))
      }
      for old in facts.lost[moves...] { names.append(change(.removed, old.parent, old.name)) }
      for new in facts.gained[moves...] { names.append(change(.created, new.parent, new.name)) }
      guard !facts.isMade, facts.isChanged || facts.hasOtherAttributes,
        let now = try place(facts.number)
      else { continue }
      if facts.isChanged { others.append(change(.changed, now.parent, now.name)) }
      if facts.hasOtherAttributes { others.append(change(.attributes, now.parent, now.name)) }
    }
    return Self.ordered(names) + others
  }

  /// A name is given up before another item gets it, a directory made before what comes into it,
  /// and removed after what leaves it. Of changes in a circle, as when two swap their names, the
  /// first goes first.
  static func ordered(_ changes: [ItemChange]) -> [ItemChange] {
    struct Place: Hashable {
      let parent: InodeNumber
      let name: ItemName
    }
    var losing: [Place: Int] = [:]
    var made: [InodeNumber: Int] = [:]
    var removed: [InodeNumber: Int] = [:]
    for (index, change) in changes.enumerated() {
      switch change.what {
      case .moved(let parent, let name): losing[Place(parent: parent, name: name)] = index
      case .removed:
        losing[Place(parent: change.parent, name: change.name)] = index
        if change.kind == .directory { removed[change.number] = index }
      case .created: if change.kind == .directory { made[change.number] = index }
      case .changed, .attributes: break
      }
    }
    var after = [[Int]](repeating: [], count: changes.count)
    var waits = [Int](repeating: 0, count: changes.count)
    func demand(_ first: Int?, before second: Int?) {
      guard let first, let second, first != second else { return }
      after[first].append(second)
      waits[second] += 1
    }
    for (index, change) in changes.enumerated() {
      if change.what != .removed {
        demand(losing[Place(parent: change.parent, name: change.name)], before: index)
        demand(made[change.parent], before: index)
      }
      switch change.what {
      case .moved(let parent, _): demand(index, before: removed[parent])
      case .removed: demand(index, before: removed[change.parent])
      case .created, .changed, .attributes: break
      }
    }
    var result: [ItemChange] = []
    var isDone = [Bool](repeating: false, count: changes.count)
    var ready = changes.indices.filter { waits[$0] == 0 }
    var first = 0
    var oldest = 0
    while result.count < changes.count {
      if first == ready.count {
        while isDone[oldest] { oldest += 1 }
        ready.append(oldest)
      }
      let next = ready[first]
      first += 1
      guard !isDone[next] else { continue }
      isDone[next] = true
      result.append(changes[next])
      for index in after[next] {
        waits[index] -= 1
        if waits[index] == 0 { ready.append(index) }
      }
    }
    return result
  }
}
