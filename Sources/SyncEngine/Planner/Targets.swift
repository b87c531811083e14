internal import Model

/// The items that are planned, and where each is to be.
struct Targets {
  let items: [ItemID: ItemTrees]
  private var targets: [ItemID: Target] = [:]
  /// Who keeps a name that another item had to give up.
  var nameKeepers: Set<ItemID> = []
  /// Packages that lose a conflict, by their directory: kept as versions of it.
  var archives: [ItemID: PackageTree] = [:]
  /// What goes from the log and is in one of these.
  var archived: Set<ItemID> = []
  /// What is settled together: the items of packages that have to do with each other.
  var groups: [Set<ItemID>] = []
  /// Packages in which something is done.
  var packages: Set<ItemID> = []

  init(items: [ItemID: ItemTrees]) { self.items = items }

  subscript(id: ItemID) -> Target? {
    get { targets[id] }
    set { targets[id] = newValue }
  }

  /// Sorted, so that a plan does not depend on the order of a hash table.
  var ids: [ItemID] { targets.keys.sorted() }

  var presentIDs: [ItemID] { ids.filter { targets[$0]?.record != nil } }

  func group(of id: ItemID) -> Set<ItemID> { groups.first { $0.contains(id) } ?? [id] }

  var heldCount: Int { targets.values.count { $0.isHeld } }

  /// How many planned directories stand above an item; enough to put parents before children.
  func depth(of record: ItemRecord) -> Int {
    var depth = 0
    var links = record.links
    while let parent = links.first?.parent, depth < 10_000 {
      depth += 1
      guard let above = targets[parent]?.record ?? items[parent]?.local?.record else { break }
      links = above.links
    }
    return depth
  }
}
