internal import Model
internal import Platform

/// Where an item is to be, on both sides, when the plan is done.
struct Target {
  /// Nil: it is to be gone.
  var record: ItemRecord?
  /// Local content gives way to the one that `record` names.
  var replacesContent = false
  /// The edited content that `record` commits.
  var commits: EditedContent?
  /// The content has to be up before the item can be settled.
  var needsUpload = false
  /// `record` is to be put into the log and is not yet to be shown here.
  var isRemoteOnly = false
  /// The log has another content by name only, of which the edit was not made. The base keeps its
  /// content until the edit is in the log: it is the edit's parent.
  var keepsParent = false
  /// Nothing can be decided now: a program is writing, or the content is not up.
  var isDeferred = false
  /// A directory that is gone elsewhere and is kept here for what never leaves the device.
  var isKeptLocally = false
  /// It waits for the rest of its package, and so does whether its directories go.
  var isHeld = false
}

extension Target {
  /// With conflict versions that the log is to have again, as it has them if it does.
  func adding(_ kept: [ContentVersion], to remote: ItemRecord?) -> Target {
    guard !kept.isEmpty, let lacking = record?.lacks(kept) else { return self }
    var result = self
    result.record?.supply(
      lacking.map { version in
        guard let known = remote?.version(version.id), known.manifest != nil else { return version }
        return known
      })
    return result
  }
}

/// The merge of one item, facet by facet: placement, content, attributes by key.
///
/// Pure. Only content against content is a conflict; of anything else that both sides changed, the
/// side that commits second, the local one, has its way.
struct Merge {
  let device: DeviceID

  func target(of trees: ItemTrees) -> Target {
    switch (trees.local, trees.remote) {
    case (nil, nil):
      Target(record: nil)
    case (nil, let remote?):
      removedHere(base: trees.base, remote: remote, kept: trees.keptConflicts)
        .adding(trees.keptConflicts, to: remote)
    case (let local?, nil):
      missingRemotely(local: local, trees).adding(trees.keptConflicts, to: nil)
    case (let local?, let remote?):
      both(local: local, base: trees.base, remote: remote)
        .adding(trees.keptConflicts, to: remote)
    }
  }

  /// New elsewhere, or removed here. An edit elsewhere that the removal did not know beats it. So
  /// do conflict versions that this device alone keeps for the log.
  private func removedHere(
    base: ItemRecord?, remote: ItemRecord, kept: [ContentVersion]
  ) -> Target {
    guard remote.lacks(kept.filter { $0.manifest != nil }).isEmpty else {
      return Target(record: remote, replacesContent: true)
    }
    // Announced by this device, which may not even have heard that it was, and gone before it was
    // sent: nobody has the content, and nobody ever will.
    if let content = remote.content, content.manifest == nil, content.device == device,
      remote.conflicts.isEmpty
    {
      return Target(record: nil)
    }
    if let kept = Self.withUnknownNames(remote, base: base) {
      return Target(record: kept, replacesContent: true)
    }
    let known = Set((base?.conflicts ?? []).map(\.id))
    guard let base,
      base.content?.id == remote.content?.id || PlantedMistake.removalBeatsEdit.isPlanted,
      remote.conflicts.allSatisfy({ known.contains($0.id) })
    else { return Target(record: remote, replacesContent: true) }
    return Target(record: nil)
  }

  /// New on this device, or removed on another. A local edit that the removal did not know beats
  /// it.
  /// So does a conflict version that this device keeps for the log: nothing else has it.
  private func missingRemotely(local: LocalSide, _ trees: ItemTrees) -> Target {
    let (base, removed) = (trees.base, trees.removed)
    // An edit that the log had before the removal, and whose answer was lost, is no news.
    let isEdit = local.edited.map { !Self.names($0, base?.content) } ?? false
    if !isEdit, let kept = Self.withUnknownNames(local.record, base: base) {
      if local.isBusy { return Target(record: local.record, isDeferred: true) }
      let record = Self.revived(kept, removed: removed, base: base)
      return comingBack(local, as: record, parent: base?.content?.parent, removed: removed)
    }
    if base != nil, !isEdit, !PlantedMistake.revivesUnedited.isPlanted {
      // A program has it open and may yet write: until it is closed nobody knows, and nothing else
      // is to wait for that.
      if local.isBusy { return Target(record: local.record, isDeferred: true) }
      return removedThere(local: local, trees, parent: base?.content?.parent)
    }
    if base != nil, !local.isBusy, let removed, let edited = local.edited {
      switch Self.wasRemoved(edited, size: local.size, with: removed, base: base?.content) {
      case true?: return removedThere(local: local, trees, parent: base?.content?.id)
      case nil: return Target(record: local.record, needsUpload: true, isDeferred: true)
      case false?: break
      }
    }
    var record = Self.revived(local.record, removed: removed, base: base)
    // The removed record may hold the very bytes that come back.
    if let edited = local.edited {
      record.conflicts.removeAll { $0.isOf(edited) }
    }
    guard !local.isBusy else {
      guard base == nil, local.mayBeAnnounced, let edited = local.edited else {
        return Target(record: local.record, isDeferred: true)
      }
      // Its name goes now; its content when it is closed, or quiet for long enough.
      var open = local
      open.edited = EditedContent(version: edited.version, manifest: nil)
      return withLocalContent(open, in: record, parent: nil)
    }
    return withLocalContent(local, in: record, parent: base?.content?.id)
  }

  /// Removed on another device, and without an edit here that the removal did not know: it goes,
  /// unless this device keeps conflict versions for the log that the removal did not know.
  private func removedThere(
    local: LocalSide, _ trees: ItemTrees, parent: VersionID?
  ) -> Target {
    guard trees.hasOnlyCopies else { return Target(record: nil) }
    var record = Self.revived(local.record, removed: trees.removed, base: trees.base)
    // The same bytes were saved again: they are news to no device, and the record names them.
    if let edited = local.edited { record.conflicts.removeAll { $0.isOf(edited) } }
    return comingBack(local, as: record, parent: parent, removed: trees.removed)
  }

  /// A removed file that comes back without news in its content.
  func comingBack(
    _ local: LocalSide, as record: ItemRecord, parent: VersionID?, removed: ItemRecord?
  ) -> Target {
    if local.edited == nil, let readable = Self.replacingUnsent(record, from: removed) {
      return Target(record: readable, replacesContent: true)
    }
    return withLocalContent(local, in: record, parent: parent)
  }

  /// Whether an edit is one of the contents that an item had when it was removed, or before: the
  /// log took it from this device, which did not hear of that and was stopped. Nil: its bytes are
  /// not known yet.
  private static func wasRemoved(
    _ edited: EditedContent, size: UInt64, with removed: ItemRecord, base: ContentVersion?
  ) -> Bool? {
    let known = [base, removed.content].compactMap(\.self)
    let contents = (known + removed.conflicts).filter {
      $0.manifest != nil && $0.size == size
    }
    guard !contents.isEmpty else { return false }
    return edited.manifest.map { manifest in contents.contains { $0.manifest == manifest } }
  }

  /// A file that the other side removed, with the hard links alone that this one did not know of.
  /// Nil if there are none, or if the file was renamed: then it is gone.
  private static func withUnknownNames(_ record: ItemRecord, base: ItemRecord?) -> ItemRecord? {
    guard let base, record.kind != .directory, record.links.count > 1 else { return nil }
    var result = record
    result.links.removeAll { base.links.contains($0) }
    return result.links.isEmpty ? nil : result
  }

  private static func names(_ edited: EditedContent, _ content: ContentVersion?) -> Bool {
    guard let content, let manifest = content.manifest else { return false }
    return content.id == edited.version || manifest == edited.manifest
  }

  /// An item that comes back although it was removed: it has as conflict versions all that it had
  /// when it was removed and that this device did not know. `removed`: its last record, while there
  /// is one.
  static func revived(
    _ record: ItemRecord, removed: ItemRecord?, base: ItemRecord?
  ) -> ItemRecord {
    guard let removed, removed.kind == record.kind,
      !PlantedMistake.forgetsRevivedVersions.isPlanted
    else { return record }
    var result = supplied(record, from: removed)
    // A conflict that was resolved before the removal stays resolved.
    result.conflicts = removed.conflicts.filter { $0.manifest != nil }
    if let content = removed.content, content.manifest != nil, content.id != base?.content?.id,
      content.id != result.content?.id
    {
      result.conflicts.append(content)
    }
    return result
  }

  /// A record whose content was announced and sent before the item was removed, with the bytes that
  /// the log had of it: this device may not have taken them up.
  static func supplied(_ record: ItemRecord, from removed: ItemRecord?) -> ItemRecord {
    guard let content = record.content, content.manifest == nil, let sent = removed?.content,
      sent.id == content.id
    else { return record }
    var result = record
    result.content = sent
    return result
  }

  /// The file with the content that the log has, or had when the file was removed. It replaces one
  /// that its device announced and never uploaded, so no device can read that. Nil: the file's own
  /// content can be read, or the content of the log cannot.
  static func replacingUnsent(_ record: ItemRecord, from log: ItemRecord?) -> ItemRecord? {
    guard record.kind == .file, record.content?.manifest == nil, let log,
      let content = log.content, content.manifest != nil
    else { return nil }
    var result = record
    result.content = content
    result.modified = log.modified
    result.conflicts.removeAll { $0.id == content.id }
    return result
  }

  private func both(local: LocalSide, base: ItemRecord?, remote: ItemRecord) -> Target {
    var merged = attributes(local: local, base: base, remote: remote)
    merged.links = placement(local: local.record.links, base: base?.links, remote: remote.links)
    guard remote.kind == .file else { return Target(record: merged) }

    merged.conflicts = remote.conflicts
    guard let edited = local.edited else {
      merged.content = remote.content
      let isNews = remote.content?.id != local.record.content?.id
      if isNews {
        if local.isBusy { return Target(record: merged, isDeferred: true) }
        merged.modified = remote.modified
      }
      return Target(record: merged, replacesContent: isNews)
    }

    // What this device announced itself and could not note any more is no other content.
    let isOwn =
      remote.content.map {
        $0.id == edited.version || ($0.manifest == nil && $0.device == device)
      } ?? true
    let isConflict = base?.content?.id != remote.content?.id && !isOwn
    let keepsParent =
      remote.content.map {
        $0.manifest == nil && $0.id != edited.version && $0.id != base?.content?.id
      } ?? false
    if local.isBusy {
      // Its other facets may go on; its content is as it was.
      merged.content = remote.content
      merged.modified = remote.modified
      return Target(
        record: merged, needsUpload: true, keepsParent: keepsParent, isDeferred: isConflict)
    }
    if edited.manifest == nil, let content = remote.content, content.id == edited.version {
      merged.content = content
      guard let manifest = content.manifest, content.size == local.size else {
        // It is announced, by whichever device had this version first.
        merged.modified = local.record.modified
        return Target(record: merged, needsUpload: true)
      }
      // After a recovery another device had this very version too, and was first to supply it.
      return Target(
        record: merged, commits: EditedContent(version: content.id, manifest: manifest))
    }
    if let content = remote.content, edited.manifest != nil, let base = base?.content,
      base.id == edited.version || content.id == edited.version
    {
      // The log has what is here: it was uploaded while a program had the file open, and nothing
      // was written since.
      merged.content = content
      if content.id == edited.version, content.manifest == edited.manifest {
        merged.modified = remote.modified
        return Target(record: merged, commits: edited)
      }
    }
    guard isConflict, let remoteContent = remote.content else {
      if let content = remote.content, content.device == device, let manifest = edited.manifest,
        content.manifest == manifest, edited.lineage == nil, !local.lacksNewer
      {
        // The log has these bytes from this device, which may not have heard of that before it was
        // stopped.
        merged.content = content
        merged.modified = local.record.modified
        return Target(
          record: merged, commits: EditedContent(version: content.id, manifest: manifest))
      }
      if edited.manifest == nil, remote.content?.manifest != nil {
        // Announcing it would take from others a content that they can read, for one that they
        // cannot: a changed content is in the log when it is up. Only a new file is announced.
        merged.content = remote.content
        merged.modified = remote.modified
        return Target(record: merged, needsUpload: true)
      }
      merged.modified = local.record.modified
      // An announced content keeps the parent of its announcement. The log may also have another
      // content by name only that this device made: the edit was made of the base.
      let isAnnounced = remote.content?.id == edited.version
      var target = withLocalContent(
        local, in: merged, parent: isAnnounced ? remote.content?.parent : base?.content?.id)
      target.keepsParent = keepsParent
      return target
    }
    return conflict(
      local: local, edited: edited, base: base?.content, remote: remote,
      remoteContent: remoteContent, merged: merged)
  }

  /// Two contents that did not know of each other. The one modified later becomes current, the
  /// other is kept as a conflict version. Source: CONTRACT, "Conflicts".
  private func conflict(
    local: LocalSide, edited: EditedContent, base: ContentVersion?, remote: ItemRecord,
    remoteContent: ContentVersion, merged: ItemRecord
  ) -> Target {
    var merged = merged
    // After a recovery there may be no base, or the log has one of the contents by name only. A
    // content is newer than its parent. A device that had read less may have supplied the parent.
    if remoteContent.parent == edited.version, remoteContent.manifest != nil {
      merged.content = remoteContent
      merged.modified = remote.modified
      return Target(record: merged, replacesContent: true)
    }
    guard let manifest = edited.manifest else {
      return Target(record: merged, needsUpload: true, isDeferred: true)
    }
    if let lineage = edited.lineage, lineage.has(remoteContent.id) {
      merged.modified = local.record.modified
      return withLocalContent(local, in: merged, parent: remoteContent.id)
    }
    if remoteContent.manifest == manifest
      || (!local.replacesLost && remote.conflicts.contains { $0.manifest == manifest })
    {
      // The same bytes, or the loser of a conflict that the log holds already.
      let isSame = remoteContent.manifest == manifest
      merged.content = remoteContent
      merged.modified = remote.modified
      return Target(
        record: merged, replacesContent: !isSame,
        commits: isSame ? EditedContent(version: remoteContent.id, manifest: manifest) : nil)
    }
    // The edit was made of the base. The parent of the other content may be newer than the base: a
    // recovery would take the edit for the successor of a content that it never replaced.
    let version = version(of: local, edited: edited, parent: base?.id)
    // A content that is not up yet never wins: nobody could read it. Its device finds the conflict
    // when it has sent it, and decides then. Nor does one that the backend lost.
    let localWins =
      remoteContent.manifest == nil || local.replacesLost
      || (version.modified, version.id) > (remoteContent.modified, remoteContent.id)
    // Either way the log holds both contents before anything changes here: were the base moved
    // first and the device stopped then, nobody would know any more that there was a conflict.
    var kept = remote
    // A recovery may have left it there by name only; an edit that lost may win now.
    kept.conflicts.removeAll { $0.id == version.id || $0.manifest == manifest }
    if localWins {
      kept.content = version
      kept.modified = local.record.modified
      if remoteContent.manifest != nil, !PlantedMistake.forgetsLosers.isPlanted {
        kept.conflicts.append(remoteContent)
      }
    } else {
      kept.conflicts.append(version)
    }
    return Target(record: kept, isRemoteOnly: true)
  }

  func withLocalContent(
    _ local: LocalSide, in record: ItemRecord, parent: VersionID?
  ) -> Target {
    guard record.kind == .file, let edited = local.edited else { return Target(record: record) }
    var record = record
    let version = version(of: local, edited: edited, parent: parent)
    record.content = version
    // A recovery may have left it there by name only.
    record.conflicts.removeAll { $0.id == version.id }
    return Target(record: record, commits: edited, needsUpload: edited.manifest == nil)
  }

  func version(
    of local: LocalSide, edited: EditedContent, parent: VersionID?
  ) -> ContentVersion {
    // A version that comes into the log again keeps its parent.
    let parent = edited.lineage.map(\.parent) ?? parent
    return ContentVersion(
      id: edited.version, parent: parent == edited.version ? nil : parent, device: device,
      modified: local.record.modified, size: edited.manifest?.size ?? local.size,
      manifest: edited.manifest)
  }

  // MARK: Facets that never conflict

  func attributes(
    local: LocalSide, base: ItemRecord?, remote: ItemRecord
  ) -> ItemRecord {
    var merged = remote
    let mine = local.record
    guard let base else {
      // Both have it and never agreed on it. What nobody touched here is as it is there.
      guard local.stamp != nil else { return merged }
      merged.modified = max(mine.modified, remote.modified)
      merged.attributes.merge(mine.attributes) { remote, _ in remote }
      return merged
    }
    func choose<Value: Equatable>(_ facet: KeyPath<ItemRecord, Value>) -> Value {
      mine[keyPath: facet] == base[keyPath: facet]
        ? remote[keyPath: facet] : mine[keyPath: facet]
    }
    merged.mode = choose(\.mode)
    merged.isPackage = choose(\.isPackage)
    merged.created = choose(\.created)
    merged.target = choose(\.target)
    if mine.modified != base.modified {
      merged.modified =
        remote.modified == base.modified ? mine.modified : max(mine.modified, remote.modified)
    }
    let keys = Set(mine.attributes.keys).union(remote.attributes.keys)
    for key in keys
    where mine.attributes[key] != base.attributes[key]
      || PlantedMistake.mergesAttributesWhole.isPlanted
    {
      merged.attributes[key] = mine.attributes[key]
    }
    return merged
  }

  /// A single name is one value; of several, additions and removals merge.
  private func placement(local: [Link], base: [Link]?, remote: [Link]) -> [Link] {
    guard let base else { return remote }
    if local == base { return remote }
    if remote == base || (local.count <= 1 && remote.count <= 1) { return local }
    let removed = Set(base).subtracting(local).union(Set(base).subtracting(remote))
    let merged = Set(local).union(remote).subtracting(removed)
    return merged.isEmpty ? local : merged.sorted()
  }
}

extension ContentVersion {
  /// Whether it is this edit, by its identity or as the same bytes.
  func isOf(_ edited: EditedContent) -> Bool {
    id == edited.version || (edited.manifest != nil && manifest == edited.manifest)
  }
}
