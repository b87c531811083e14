package import Model
package import SystemPackage

/// Which of the items that a plan removes from the log are lost with it.
package struct LostItems<View: TreeView> {
  let device: Model.DeviceID
  let view: View
  /// What stands here where an item of the log stood: itself, another one of its name, or nothing.
  private var standIns: [ItemID: ItemID?] = [.root: .root]

  package init(device: Model.DeviceID, view: View) {
    self.device = device
    self.view = view
  }

  /// A file whose content this device announced and never sent is in the log by name only.
  package static func isThere(_ record: ItemRecord, for device: Model.DeviceID) -> Bool {
    guard record.kind == .file, let content = record.content else { return true }
    return content.manifest != nil || content.device != device
  }

  /// Nil for what is replaced: another item of its kind is under its name, in the directory that it
  /// was in or in one that replaced that. So do programs save, and so does a tree come that is
  /// unpacked anew; content that is written over is no removal either.
  package mutating func lost(_ id: ItemID) throws(Errno) -> ItemRecord? {
    guard let record = try view.remoteRecord(id), Self.isThere(record, for: device) else {
      return nil
    }
    for link in record.links {
      guard let item = try inPlace(of: link), let other = try view.localRecord(item),
        other.kind == record.kind
      else { return record }
    }
    return nil
  }

  private func inPlace(of link: Link, known: [ItemID: ItemID?]) throws(Errno) -> ItemID? {
    guard let parent = known[link.parent] ?? nil else { return nil }
    return try view.localChild(of: parent, named: link.name)
  }

  private mutating func inPlace(of link: Link) throws(Errno) -> ItemID? {
    // From the nearest directory that is known already down to the one that is asked for.
    var path: [(item: ItemID, link: Link)] = []
    var current = link.parent
    while standIns[current] == nil {
      if try view.localRecord(current) != nil {
        standIns[current] = .some(current)
      } else if let above = try view.remoteRecord(current)?.links.first, path.count < 10_000 {
        path.append((current, above))
        current = above.parent
      } else {
        standIns[current] = .some(nil)
      }
    }
    for step in path.reversed() {
      standIns[step.item] = .some(try inPlace(of: step.link, known: standIns))
    }
    return try inPlace(of: link, known: standIns)
  }
}
