/// Claims or presenters by place, so that those at, above and below a path are found without
/// looking at the others.
struct PlaceIndex<ID: Hashable & Comparable & Sendable>: Hashable, Sendable {
  private struct Node: Hashable {
    /// At this place, in order.
    var here: [ID] = []
    /// At a place below this one, in order.
    var below: [ID] = []
  }

  private var top = Node()
  private var nodes: [Place: Node] = [:]

  private func update(_ list: inout [ID], _ id: ID, _ isIn: Bool) {
    let index = list.partitioningIndex { $0 >= id }
    let isThere = index < list.count && list[index] == id
    if isIn, !isThere { list.insert(id, at: index) }
    if !isIn, isThere { list.remove(at: index) }
  }

  private mutating func set(_ id: ID, at path: ClaimPath, _ isIn: Bool) {
    guard let last = path.places.last else { return update(&top.here, id, isIn) }
    update(&top.below, id, isIn)
    for place in path.places {
      var node = nodes[place] ?? Node()
      if place == last { update(&node.here, id, isIn) } else { update(&node.below, id, isIn) }
      nodes[place] = node.here.isEmpty && node.below.isEmpty ? nil : node
    }
  }

  mutating func insert(_ id: ID, at path: ClaimPath) { set(id, at: path, true) }

  /// What is at several paths has to be removed from all of them.
  mutating func remove(_ id: ID, at path: ClaimPath) { set(id, at: path, false) }

  /// Whether anything is at the place or below it.
  func isUsed(_ place: Place) -> Bool { nodes[place] != nil }

  /// Lists, each in order, that together hold all that meets the path.
  func meeting(_ path: ClaimPath) -> [[ID]] {
    let around = around(path)
    return around.above + [around.here, around.below].filter { !$0.isEmpty }
  }

  /// What is at a place above the path, nearest last; at it; and below it. Each list is in order.
  func around(_ path: ClaimPath) -> (above: [[ID]], here: [ID], below: [ID]) {
    guard let last = path.places.last else { return ([], top.here, top.below) }
    var above = top.here.isEmpty ? [] : [top.here]
    for place in path.places {
      guard let node = nodes[place] else { break }
      if place == last { return (above, node.here, node.below) }
      if !node.here.isEmpty { above.append(node.here) }
    }
    return (above, [], [])
  }
}

/// Lists that are each in order, as one in order, each element once. Asked for one at a time:
/// whoever stops early has paid for no more.
struct InOrder<ID: Comparable>: IteratorProtocol {
  private let lists: [[ID]]
  private var positions: [Int]

  init(_ lists: [[ID]]) {
    self.lists = lists
    positions = lists.map { _ in 0 }
  }

  mutating func next() -> ID? {
    var found: ID?
    for (list, at) in zip(lists, positions) where at < list.count {
      if let first = found, first <= list[at] { continue }
      found = list[at]
    }
    guard let found else { return nil }
    for index in lists.indices where positions[index] < lists[index].count {
      if lists[index][positions[index]] == found { positions[index] += 1 }
    }
    return found
  }
}

extension Array {
  /// The first index from which on `belongs` holds, in a list in which it holds from somewhere on.
  func partitioningIndex(where belongs: (Element) -> Bool) -> Int {
    var low = 0
    var high = count
    while low < high {
      let middle = (low + high) / 2
      if belongs(self[middle]) { high = middle } else { low = middle + 1 }
    }
    return low
  }
}
