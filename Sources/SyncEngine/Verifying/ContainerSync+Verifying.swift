internal import Catalog
internal import Coordination
internal import Logging
internal import Model
internal import RemoteStore
internal import SystemPackage

/// A check of a container's objects while it goes on.
struct StoreCheck {
  let options: VerifyOptions
  let progress: ContainerSync.VerifyProgress
  var report = VerifyReport()
  var total: UInt64 = 0
  /// Packs whose chunks can all be read and that are damaged otherwise.
  var brokenFrames: [PackID] = []
  /// Items of which no file here has the content.
  var unresolved: [Unresolved] = []

  struct Unresolved {
    let item: ItemID
    let version: VersionID
    let content: VerifiedContent
  }

  init(options: VerifyOptions, progress: @escaping ContainerSync.VerifyProgress) {
    self.options = options
    self.progress = progress
  }

  /// One more object is known of, and whether it was looked at.
  mutating func count(isChecked: Bool = true) {
    report.objects += 1
    if isChecked { report.checked += 1 }
    total = max(total, report.objects)
    progress(report.objects, total)
  }

  mutating func add(_ object: String, _ check: ObjectCheck) {
    switch check {
    case .good: break
    case .missing: report.add(.object(object, reason: "it is missing"), isMissing: true)
    case .damaged(let reason): report.add(.object(object, reason: reason), isMissing: false)
    }
  }
}

/// The result of reading a pack.
private struct CheckedPack: Sendable {
  let pack: PackID
  let result: Result<PackCheck, RemoteError>

  init(_ pack: PackID, _ chunks: [ChunkLocation], in remote: RemoteContainer) async {
    self.pack = pack
    do throws(RemoteError) {
      result = .success(try await remote.checkPack(pack, chunks))
    } catch {
      result = .failure(error)
    }
  }
}

/// Checks that the store holds every object that the log references, and uploads again what it does
/// not hold and this device has. Beside cycles, like compaction; it may stop anywhere and be run
/// again.
///
/// **Order.** The catalog notes a lost chunk before anything else is done about it: from then on no
/// upload takes it for stored. A file that has it locally is marked as edited before its chunks are
/// uploaded: from then on it does not count as uploaded, and cannot be evicted. A stop in between
/// leaves the upload to the next cycle.
extension ContainerSync {
  package typealias VerifyProgress = @Sendable (_ done: UInt64, _ total: UInt64) -> Void

  package func verify(
    _ options: VerifyOptions, progress: @escaping VerifyProgress = { _, _ in }
  ) async throws(SyncFailure) -> VerifyReport {
    try link.check()
    // Not a thorough look: a gap at the beginning of the log, whose snapshot is lost, is repaired
    // below.
    switch await runCycle(freshly: true) {
    case .failed(let failure) where failure.isOfTheNetwork || failure == .stopped: throw failure
    // A cause that keeps a cycle from finishing is found below, or is no concern of the store.
    default: break
    }
    hurrying += 1
    defer { hurrying -= 1 }
    do throws(CycleFailure) {
      return try await untilStopped { sync throws(CycleFailure) in
        try await sync.check(options, progress)
      }
    } catch {
      throw error.asSyncFailure
    }
  }

  private func check(
    _ options: VerifyOptions, _ progress: @escaping VerifyProgress
  ) async throws(CycleFailure) -> VerifyReport {
    var check = StoreCheck(options: options, progress: progress)
    let remote = try await remotely { () throws(RemoteError) in try await link.container() }
    check.total = try local { () throws(Errno) in try coordinator.catalog.countPacksInUse() }
    try await checkName(&check, remote)
    let first = try await checkLog(&check, remote)
    try await checkSnapshot(&check, remote, before: first)
    try await checkPacks(&check, remote)
    let marked = try await markLost(&check)
    try await rescue(&check, remote)
    try await uploadMarked(marked, &check)
    try reportUnresolved(&check)
    // Such as another device's log: this device's own objects are all there.
    if storeProblem != nil, check.report.isWell { _ = await runCycle(freshly: true) }
    if let problem = storeProblem, check.report.isWell {
      check.report.add(.object("the log", reason: problem), isMissing: false)
    }
    return check.report
  }

  // MARK: The log

  private func checkName(_ check: inout StoreCheck, _ remote: RemoteContainer)
    async throws(CycleFailure)
  {
    check.count()
    do throws(CycleFailure) {
      if try await keepName(remote) { check.report.repaired += 1 }
    } catch {
      let isMissing = if case .missing = condition { true } else { false }
      switch error {
      case .unsound(let reason):
        check.report.add(.object(remote.nameObject, reason: reason), isMissing: isMissing)
      case .remote(.logRemoved):
        check.add(remote.nameObject, .missing)
      default:
        guard let damage = error.damage else { throw error }
        check.report.add(.object(remote.nameObject, reason: damage), isMissing: false)
      }
    }
  }

  /// All segments that are still kept, up to the one that this device has read. Gives the number
  /// of the first of them.
  private func checkLog(_ check: inout StoreCheck, _ remote: RemoteContainer)
    async throws(CycleFailure) -> UInt64
  {
    let position = try local { () throws(Errno) in try coordinator.catalog.position() }
    guard position.sequence > 0 else { return 1 }
    var first: UInt64?
    var expected: UInt64?
    var previous: [UInt8]?
    var last: UInt64 = 0
    while last < position.sequence {
      let after = last
      let numbers = try await remotely { () throws(RemoteError) in
        try await remote.segmentNumbers(after: after, limit: 1000)
      }.filter { $0 <= position.sequence }
      guard let end = numbers.last else { break }
      for number in numbers {
        guard !Task.isCancelled else { throw .cancelled }
        // The segments before the first one are in a snapshot: `checkSnapshot` looks for that.
        first = first ?? number
        if let expected, expected < number {
          try await checkUnlisted(expected..<number, &check, remote)
          previous = nil
        }
        expected = number + 1
        let isHead = number == position.sequence
        let isRead = isHead || (check.options.readsData && check.options.isChosen())
        check.count(isChecked: isRead || !check.options.readsData)
        guard isRead else {
          previous = nil
          continue
        }
        let known = previous
        let (found, hash) = try await remotely { () throws(RemoteError) in
          try await remote.checkSegment(
            number, hash: isHead ? position.hash : nil, previous: known)
        }
        check.add(remote.objectName(ofSegment: number), found)
        previous = hash
      }
      last = end
    }
    if expected != position.sequence + 1 {
      let start = expected ?? position.sequence
      first = first ?? start
      try await checkUnlisted(start..<position.sequence, &check, remote)
      try await checkUnlisted(position.sequence, &check, remote)
    }
    return first ?? position.sequence
  }

  /// Segments that a list does not show. A list alone proves nothing: each is asked for. Nobody
  /// needs those in the newest snapshot: after a recovery the log goes on a million numbers later.
  private func checkUnlisted(
    _ numbers: Range<UInt64>, _ check: inout StoreCheck, _ remote: RemoteContainer
  ) async throws(CycleFailure) {
    guard !numbers.isEmpty else { return }
    let start = try await max(numbers.lowerBound, newestSnapshot(remote) &+ 1)
    guard start < numbers.upperBound else { return }
    for number in start..<numbers.upperBound {
      try await checkUnlisted(number, &check, remote)
      guard check.report.unlisted == 0 else { return }
    }
  }

  private func checkUnlisted(
    _ number: UInt64, _ check: inout StoreCheck, _ remote: RemoteContainer
  ) async throws(CycleFailure) {
    guard !Task.isCancelled else { throw .cancelled }
    check.count()
    let (found, _) = try await remotely { () throws(RemoteError) in
      try await remote.checkSegment(number, previous: nil)
    }
    check.add(remote.objectName(ofSegment: number), found)
  }

  /// By what this device knows, and by what the store lists. 0: there is none.
  private func newestSnapshot(_ remote: RemoteContainer) async throws(CycleFailure) -> UInt64 {
    let known = try local { () throws(Errno) in try coordinator.catalog.logLength() }.snapshot
    let listed = try await remotely { () throws(RemoteError) in
      try await remote.snapshots(beyond: 0)
    }
    return max(known, listed.max() ?? 0)
  }

  /// The newest snapshot: older ones are kept for a while and nobody needs them. A log that does
  /// not begin with its first segment needs one that has what is before `first`, which is the first
  /// that is kept.
  private func checkSnapshot(
    _ check: inout StoreCheck, _ remote: RemoteContainer, before first: UInt64
  ) async throws(CycleFailure) {
    let newest = try await newestSnapshot(remote)
    if newest < first { try await checkUnlisted(newest + 1..<first, &check, remote) }
    guard newest > 0 else { return }
    let readsData = check.options.readsData && check.options.isChosen()
    let found = try await remotely { () throws(RemoteError) in
      try await remote.checkSnapshot(newest, readsData: readsData)
    }
    let failed = found.filter { $0.check != .good }
    for _ in found { check.count(isChecked: readsData || !check.options.readsData) }
    guard !failed.isEmpty else { return }
    // A newer one takes its place. It can be written if the log went on since.
    let position = try local { () throws(Errno) in try coordinator.catalog.position() }
    if position.sequence > newest {
      do throws(CycleFailure) {
        try await writeSnapshot(to: remote, replacing: newest)
        check.report.repaired += 1
        logger.notice("snapshot \(newest) in the backend is damaged; a newer one was written")
        return
      } catch .cancelled {
        throw .cancelled
      } catch {
        logger.warning(
          """
          snapshot \(newest) in the backend is damaged, and a newer one cannot be written: \
          \(error.asSyncFailure)
          """)
      }
    }
    for (object, result) in failed { check.add(object, result) }
  }

  // MARK: Packs

  private static let pageOfPacks = 64
  private static let parallelReads = 4

  func checkPacks(_ check: inout StoreCheck, _ remote: RemoteContainer)
    async throws(CycleFailure)
  {
    let catalog = coordinator.catalog
    var listing = remote.listPacks()
    var after: PackID?
    while true {
      guard !Task.isCancelled else { throw .cancelled }
      let start = after
      let (extents, last) = try local { () throws(Errno) in
        try catalog.packExtents(after: start, limit: Self.pageOfPacks)
      }
      guard let last else { return }
      after = last
      var toRead: [PackID] = []
      for extent in extents {
        let looksWhole: Bool
        do throws(RemoteError) {
          looksWhole = try await listing.looksWhole(extent.pack, upTo: extent.end)
        } catch {
          throw .remote(error)
        }
        let isChosen = check.options.readsData && check.options.isChosen()
        check.count(isChecked: isChosen || !check.options.readsData)
        // A list alone proves nothing: what looks lost is asked for.
        if !looksWhole || isChosen || extent.wasLost { toRead.append(extent.pack) }
      }
      try await read(toRead, &check, remote)
      await Task.yield()
    }
  }

  private func read(
    _ packs: [PackID], _ check: inout StoreCheck, _ remote: RemoteContainer
  ) async throws(CycleFailure) {
    let catalog = coordinator.catalog
    for start in stride(from: 0, to: packs.count, by: Self.parallelReads) {
      guard !Task.isCancelled else { throw .cancelled }
      let batch = packs[start..<min(start + Self.parallelReads, packs.count)]
      var chunks: [PackID: [ChunkLocation]] = [:]
      for pack in batch {
        chunks[pack] = try local { () throws(Errno) in try catalog.chunks(of: pack) }
      }
      let asked = chunks
      var results: [(pack: PackID, check: Result<PackCheck, RemoteError>)] = []
      await withTaskGroup(of: CheckedPack.self) { group in
        for (pack, chunks) in asked {
          group.addTask { await CheckedPack(pack, chunks, in: remote) }
        }
        for await checked in group { results.append((checked.pack, checked.result)) }
      }
      results.sort { $0.pack < $1.pack }
      for (pack, result) in results {
        let found = try await remotely { () throws(RemoteError) in try result.get() }
        // It may have been deleted by the log since the page was read.
        let isInUse = try local { () throws(Errno) in try !catalog.chunks(of: pack).isEmpty }
        let isNews = try local { () throws(Errno) in
          try catalog.noteLost(
            isInUse ? found.lost : [], of: pack, isMissing: found.isMissing)
        }
        if isNews { hasUnmarkedLosses = true }
        guard isInUse, let reason = found.reason else { continue }
        logger.error(
          "the object \"\(remote.objectName(of: pack))\" in the backend is damaged: \(reason)")
        if found.lost.isEmpty { check.brokenFrames.append(pack) }
      }
    }
    // A known loss has to be known after a crash too.
    if !packs.isEmpty { try local { () throws(Errno) in try catalog.commit(durable: true) } }
  }

  // MARK: Repair

  /// Marks the files that have lost chunks locally, to be uploaded again.
  func markLost(_ check: inout StoreCheck) async throws(CycleFailure) -> [ItemID] {
    let catalog = coordinator.catalog
    // The next call marks what is noted meanwhile.
    hasUnmarkedLosses = false
    markings += 1
    var isComplete = false
    defer {
      markings -= 1
      if !isComplete { hasUnmarkedLosses = true }
    }
    guard try local({ () throws(Errno) in try catalog.hasLostChunks() }) else {
      isComplete = true
      return []
    }
    let prefixes = try local { () throws(Errno) in try catalog.lostChunkPrefixes() }
    var marked: Set<ItemID> = []
    for removed in [false, true] {
      var last: ItemID?
      while true {
        guard !Task.isCancelled else { throw .cancelled }
        let start = last
        let page = try local { () throws(Errno) in
          try catalog.loggedItems(after: start, removed: removed)
        }
        guard let end = page.last else { break }
        last = end.record.id
        for item in page {
          let versions = try local { () throws(Errno) in try lost(in: item.record, prefixes) }
          if !versions.isEmpty, !removed, item.record.kind == .directory {
            marked.formUnion(try markFiles(of: item.record.id, prefixes))
          }
          for version in versions {
            let record = item.record
            let isCurrent = !removed && version == record.content?.id
            let isHere =
              removed
              ? false : try isShown(version, of: record.id, current: isCurrent ? record : nil)
            if isHere, try markForUpload(record.id) {
              marked.insert(record.id)
              continue
            }
            check.unresolved.append(
              StoreCheck.Unresolved(
                item: record.id, version: version,
                content: removed ? .removed : isCurrent ? .current : .conflictVersion))
          }
        }
        await Task.yield()
      }
    }
    try local { () throws(Errno) in try catalog.commit(durable: true) }
    isComplete = true
    for item in marked { coordinator.tellStatus(of: item) }
    return marked.sorted()
  }

  /// Of a package with a lost conflict version: marks the files that have lost content locally. A
  /// device whose package lost the conflict shows them until it applies the other version.
  private func markFiles(
    of package: ItemID, _ prefixes: Set<UInt64>
  ) throws(CycleFailure) -> [ItemID] {
    let catalog = coordinator.catalog
    var marked: [ItemID] = []
    for file in try local({ () throws(Errno) in try files(of: package) }) {
      let isLost = try local { () throws(Errno) in
        let content = try catalog.shownContent(of: file.number)
        return try hasLost(content?.manifest, prefixes)
      }
      if isLost, try markForUpload(file.item) { marked.append(file.item) }
    }
    return marked
  }

  /// The versions of a record of which the store lost some.
  private func lost(in record: ItemRecord, _ prefixes: Set<UInt64>) throws(Errno) -> [VersionID] {
    var result: [VersionID] = []
    for version in [record.content].compactMap(\.self) + record.conflicts {
      if try hasLost(version.manifest, prefixes) { result.append(version.id) }
    }
    return result
  }

  private func hasLost(_ manifest: Manifest?, _ prefixes: Set<UInt64>) throws(Errno) -> Bool {
    let candidates = (manifest?.chunks ?? []).map(\.id).filter { prefixes.contains($0.prefix) }
    guard !candidates.isEmpty else { return false }
    return try !coordinator.catalog.lostChunks(among: candidates).isEmpty
  }

  /// Whether the file here has this version.
  ///
  /// `current`: the version is the current one of this record. Then the file may also have an edit,
  /// or an older content, that is no conflict version of the record. An edit takes the place of
  /// the version. An older content may be all that is left of the file, so it becomes a conflict
  /// version.
  private func isShown(
    _ version: VersionID, of item: ItemID, current: ItemRecord?
  ) throws(CycleFailure) -> Bool {
    try local { () throws(Errno) in
      let catalog = coordinator.catalog
      guard let shown = try catalog.local(item)?.inode else { return false }
      if shown.version == version { return true }
      guard let current else { return false }
      let isEdit = shown.version == nil
      let manifest =
        isEdit ? staged[item]?.manifest : try catalog.shownContent(of: shown.number)?.manifest
      guard let manifest else { return isEdit }
      return !current.conflicts.contains { $0.id == shown.version || $0.manifest == manifest }
    }
  }

  /// False: its content is not local. An edit of it that is local is uploaded in any case, and
  /// takes its place.
  private func markForUpload(_ item: ItemID) throws(CycleFailure) -> Bool {
    let catalog = coordinator.catalog
    return try local { () throws(Errno) in
      guard let found = try catalog.local(item), found.inode.kind == .file,
        found.inode.content == .local
      else { return false }
      if found.isEdited { return true }
      return try catalog.forgetVersion(of: item)
    }
  }

  /// Chunks of packs that are damaged elsewhere than in a chunk get a new pack.
  private func rescue(_ check: inout StoreCheck, _ remote: RemoteContainer)
    async throws(CycleFailure)
  {
    let catalog = coordinator.catalog
    for pack in check.brokenFrames {
      let chunks = try local { () throws(Errno) in try catalog.chunks(of: pack) }
      let moved = try await storeAnew(chunks, remote)
      _ = try await append(to: remote) { () throws(CycleFailure) in LogChanges(chunks: moved) }
      let left = try local { () throws(Errno) in try catalog.chunks(of: pack) }
      if left.isEmpty {
        check.report.repaired += 1
      } else {
        check.add(remote.objectName(of: pack), .damaged("its header or its index is damaged"))
      }
    }
  }

  private func uploadMarked(_ marked: [ItemID], _ check: inout StoreCheck)
    async throws(CycleFailure)
  {
    guard !marked.isEmpty else { return }
    logger.notice("the backend lost the content of \(marked.count) files; they are uploaded again")
    while case .uploading = await runCycle(freshly: true) {
      guard !Task.isCancelled else { throw .cancelled }
      await uploads.waitForEnd(atMost: .seconds(10))
    }
    for item in marked {
      let isUploaded = try local { () throws(Errno) in
        guard try catalogIsClean(item) else { return false }
        let chunks = try coordinator.catalog.remote(item)?.content?.manifest?.chunks ?? []
        return try coordinator.catalog.lostChunks(among: chunks.map(\.id)).isEmpty
      }
      if isUploaded {
        check.report.repaired += 1
      } else if let version = try notHere(item) {
        check.unresolved.append(
          StoreCheck.Unresolved(item: item, version: version, content: .current))
      } else {
        check.report.pending += 1
      }
    }
  }

  /// The current version of an item, if the local content is a conflict version by now. Then no
  /// upload of this device can supply the current one.
  private func notHere(_ item: ItemID) throws(CycleFailure) -> VersionID? {
    let record = try local { () throws(Errno) in try coordinator.catalog.remote(item) }
    guard let record, let content = record.content,
      try local({ () throws(Errno) in try isLocal(item) })
    else { return nil }
    return try isShown(content.id, of: item, current: record) ? nil : content.id
  }

  private func catalogIsClean(_ item: ItemID) throws(Errno) -> Bool {
    try coordinator.catalog.dirtyStamp(item) == nil
  }

  /// What is still lost: some of it other files had, and was uploaded with them.
  private func reportUnresolved(_ check: inout StoreCheck) throws(CycleFailure) {
    let catalog = coordinator.catalog
    for found in check.unresolved {
      let result = try local { () throws(Errno) -> (ItemRecord, LostChunkKind)? in
        let record =
          found.content == .removed
          ? try catalog.removedItem(found.item)?.record : try catalog.remote(found.item)
        guard let record,
          let version = ([record.content].compactMap(\.self) + record.conflicts)
            .first(where: { $0.id == found.version }),
          let kind = try catalog.lostChunks(among: (version.manifest?.chunks ?? []).map(\.id))
            .values.first
        else { return nil }
        return (record, kind)
      }
      guard let (record, kind) = result else { continue }
      let path = try local { () throws(Errno) in try self.path(of: record) }
      check.report.add(.item(path: path, found.content), isMissing: kind == .missing)
    }
  }
}
