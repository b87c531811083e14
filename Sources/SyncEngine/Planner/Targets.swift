internal import Model

/// How often a plan looked at one of its items: for tests, which see from it how the work grows.
package final class StepCount {
  package fileprivate(set) var count = 0

  package init() {}
}

/// The items that are planned, and where each is to be.
struct Targets {
  let items: [ItemID: ItemTrees]
  private let steps: StepCount
  private var targets: [ItemID: Target] = [:]
  /// Who keeps a name that another item had to give up.
  var nameKeepers: Set<ItemID> = []
  /// Packages that lose a conflict, by their directory: kept as versions of it.
  var archives: [ItemID: PackageTree] = [:]
  /// Items of a package that wins its conflict, until the log has the other version.
  var keepsBase: Set<ItemID> = []
  /// What goes from the log and is in one of these.
  var archived: Set<ItemID> = []
  /// What is settled together: the items of packages that have to do with each other.
  var groups: [Set<ItemID>] = []
  /// Packages in which something is done.
  var packages: Set<ItemID> = []

  init(items: [ItemID: ItemTrees], steps: StepCount) {
    self.items = items
    self.steps = steps
  }

  subscript(id: ItemID) -> Target? {
    get {
      steps.count += 1
      return targets[id]
    }
    set { targets[id] = newValue }
  }

  /// Sorted, so that a plan does not depend on the order of a hash table.
  var ids: [ItemID] { targets.keys.sorted() }

  var presentIDs: [ItemID] { ids.filter { targets[$0]?.record != nil } }

  func group(of id: ItemID) -> Set<ItemID> { groups.first { $0.contains(id) } ?? [id] }
}

/// How many planned directories stand above an item: enough to put parents before children.
/// Remembers what it found, so one is made for each plan.
struct Depths {
  private let targets: Targets
  private var known: [ItemID: Int] = [.root: 0]

  init(_ targets: Targets) { self.targets = targets }

  mutating func depth(of record: ItemRecord) -> Int {
    record.links.first.map { 1 + depth(ofDirectory: $0.parent) } ?? 0
  }

  private mutating func depth(ofDirectory id: ItemID) -> Int {
    var path: [ItemID] = []
    var current = id
    var depth = 0
    while true {
      if let answer = known[current] {
        depth = answer
        break
      }
      // So that a walk in a circle ends.
      known[current] = 0
      guard
        let record = targets[current]?.record ?? targets.items[current]?.local?.record,
        let above = record.links.first?.parent
      else { break }
      path.append(current)
      current = above
    }
    for item in path.reversed() {
      depth += 1
      known[item] = depth
    }
    return depth
  }
}
