internal import Catalog
internal import Model
internal import SystemPackage

extension Planner {
  /// Sees to it that no two items are to have one name in one directory.
  ///
  /// Two directories of one name are one directory: gives a plan that says so, and nothing else. Of
  /// two others, packages among them, the later one becomes `name 2.ext`. Source: CONTRACT,
  /// "Conflicts".
  func settleNames(_ targets: inout Targets) throws(Errno) -> Plan? {
    var owners: [Link: ItemID] = [:]
    // Either of the two directories may come first here, or both may: one identity, one adoption.
    var adoptions: [ItemID: ItemID] = [:]
    var adopted: Set<ItemID> = []
    // Those whose name the log has already come first, so that they keep it.
    let order = targets.presentIDs.sorted { left, right in
      let isOlder = (
        isInLog(left, targets) ? 0 : 1, isInLog(right, targets) ? 0 : 1
      )
      return isOlder.0 == isOlder.1 ? left < right : isOlder.0 < isOlder.1
    }
    for id in order {
      // What nothing is done about now keeps the names that it has; `owner` sees to that.
      guard let target = targets[id], !target.isDeferred, !target.isRemoteOnly,
        let record = target.record
      else { continue }
      for link in record.links {
        guard let owner = try owner(of: link, except: id, targets, owners) else {
          owners[link] = id
          continue
        }
        switch try settle(id, against: owner, at: link, &targets, owners) {
        case .adopt(let local, let remote):
          if adopted.insert(remote).inserted { adoptions[local] = remote }
        case .renamed(let loser, let name):
          let winner = loser == id ? owner.id : id
          if let winner {
            owners[link] = winner
            targets.nameKeepers.insert(winner)
          }
          owners[Link(parent: link.parent, name: name)] = loser
        }
      }
    }
    guard !adoptions.isEmpty else { return nil }
    try adoptBelow(&adoptions, &adopted, targets)
    var plan = Plan()
    plan.local = adoptions.sorted { $0.key < $1.key }.map { .adopt(local: $0.key, as: $0.value) }
    plan.isPreliminary = true
    return plan
  }

  /// What is in two directories that become one meets in it: so two trees of the same directories
  /// become one at once, and not a level with each plan.
  private func adoptBelow(
    _ adoptions: inout [ItemID: ItemID], _ adopted: inout Set<ItemID>, _ targets: Targets
  ) throws(Errno) {
    var inside: [ItemID: [(id: ItemID, name: ItemName)]] = [:]
    for id in targets.presentIDs where adoptions[id] == nil {
      guard let target = targets[id], !target.isDeferred, !target.isRemoteOnly,
        let link = target.record?.links.first, try isHereAlone(id, targets),
        try isPlainDirectory(id, targets)
      else { continue }
      inside[link.parent, default: []].append((id, link.name))
    }
    var pending = adoptions.sorted { $0.key < $1.key }
    while let (local, remote) = pending.popLast() {
      for child in inside[local] ?? [] {
        guard let other = try view.remoteChild(of: remote, named: child.name),
          let target = targets[other], !target.isDeferred, !target.isRemoteOnly,
          target.record != nil, isNewThere(other, targets), try isPlainDirectory(other, targets),
          adopted.insert(other).inserted
        else { continue }
        adoptions[child.id] = other
        pending.append((child.id, other))
      }
    }
  }

  private enum Settlement {
    case adopt(local: ItemID, as: ItemID)
    case renamed(ItemID, ItemName)
  }

  private struct Owner {
    /// Nil: something outside the trees.
    var id: ItemID?
  }

  private func settle(
    _ id: ItemID, against owner: Owner, at link: Link, _ targets: inout Targets,
    _ owners: [Link: ItemID]
  ) throws(Errno) -> Settlement {
    if let other = owner.id, try isPlainDirectory(id, targets),
      try isPlainDirectory(other, targets)
    {
      if try isHereAlone(id, targets), isNewThere(other, targets) {
        return .adopt(local: id, as: other)
      }
      if try isHereAlone(other, targets), isNewThere(id, targets) {
        return .adopt(local: other, as: id)
      }
    }
    let loser = loser(id, owner.id, at: link, targets)
    var links = targets[loser]?.record?.links ?? []
    var number = 2
    var new = Link(parent: link.parent, name: link.name.numbered(number))
    while true {
      // Another name of the same file is taken too: a file has no name twice.
      if !links.contains(new), try self.owner(of: new, except: loser, targets, owners) == nil {
        break
      }
      number += 1
      new = Link(parent: link.parent, name: link.name.numbered(number))
    }
    links.removeAll { $0 == link }
    links.append(new)
    targets[loser]?.record?.links = links.sorted()
    return .renamed(loser, new.name)
  }

  /// Which of two items of one name is renamed: what both trees agree on stays; of two new ones the
  /// later; else the one that was moved here.
  private func loser(_ id: ItemID, _ other: ItemID?, at link: Link, _ targets: Targets) -> ItemID {
    guard let other, let target = targets[other], !target.isDeferred, !target.isRemoteOnly,
      !target.isKeptLocally, let first = target.record, let second = targets[id]?.record
    else { return id }
    let isNew = (
      targets.items[other]?.base == nil, targets.items[id]?.base == nil
    )
    if isNew.0, isNew.1 {
      return (first.created, other) > (second.created, id) ? other : id
    }
    if isInLog(id, targets), targets.items[id]?.remote?.links.contains(link) == true {
      return other
    }
    return id
  }

  private func owner(
    of link: Link, except id: ItemID, _ targets: Targets, _ owners: [Link: ItemID]
  ) throws(Errno) -> Owner? {
    if let owner = owners[link], owner != id { return Owner(id: owner) }
    if reserved.contains(link) { return Owner(id: nil) }
    let candidates = [
      try view.remoteChild(of: link.parent, named: link.name),
      try view.localChild(of: link.parent, named: link.name),
    ]
    for case let candidate? in candidates where candidate != id {
      if let target = targets[candidate] {
        // A planned item has the name only if it is to have it, or nothing is decided of it.
        let keepsName =
          target.isDeferred || target.isRemoteOnly || target.isKeptLocally
          || target.record?.links.contains(link) == true
        if keepsName { return Owner(id: candidate) }
      } else {
        return Owner(id: candidate)
      }
    }
    return nil
  }

  private func isInLog(_ id: ItemID, _ targets: Targets) -> Bool {
    targets.items[id]?.remote != nil || targets.items[id] == nil
  }

  /// Made here and not in the log yet; or gone from the log, and kept for what never leaves the
  /// device.
  private func isHereAlone(_ id: ItemID, _ targets: Targets) throws(Errno) -> Bool {
    guard let trees = targets.items[id] else {
      guard try view.localRecord(id) != nil else { return false }
      return try view.remoteRecord(id) == nil
    }
    guard trees.local != nil, trees.remote == nil else { return false }
    return trees.base == nil || targets[id]?.isKeptLocally == true
  }

  /// In the log and not yet shown here.
  private func isNewThere(_ id: ItemID, _ targets: Targets) -> Bool {
    guard let trees = targets.items[id] else { return false }
    return trees.local == nil && trees.remote != nil
  }

  /// Two packages of one name are two documents.
  private func isPlainDirectory(_ id: ItemID, _ targets: Targets) throws(Errno) -> Bool {
    let record: ItemRecord?
    if let planned = targets[id]?.record {
      record = planned
    } else {
      let here = try view.localRecord(id)
      if let here { record = here } else { record = try view.remoteRecord(id) }
    }
    guard let record else { return false }
    return record.kind == .directory && !types.isPackage(record)
  }
}
