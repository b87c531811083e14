package import Catalog
internal import ContentStore
package import Model
internal import Platform
package import SystemPackage

/// What users ask of items: where they are, to evict, to download, to keep.
extension ContainerCoordinator {
  /// Frees the local content of a file, or of all that can be below a directory.
  ///
  /// Throws EBUSY while the file is open, is not uploaded yet or is pinned, and while somebody has
  /// a claim on it or presents it; EPERM in `.nosync`. EAGAIN, ENETDOWN and EBUSY as
  /// `requireConfirmedStore` says; after EAGAIN a part may be gone, and an `Eviction` does the
  /// rest. `claimant` has claimed it for evicting, so that its presenters know. The catalog says
  /// "remote" durably before the bytes go. Source: CONTRACT, "Extended attributes".
  package func evict(_ number: InodeNumber, by claimant: ClaimantID? = nil) throws(Errno) {
    var eviction = Eviction(number, of: self, by: claimant)
    try eviction.run()
  }

  func evictFile(
    _ inode: Catalog.Inode, since: UInt64, by claimant: ClaimantID?
  ) throws(Errno) {
    guard !inode.isExcluded else { throw Errno.notPermitted }
    guard inode.kind == .file else { throw Errno.invalidArgument }
    // Local refusals come before the store is asked.
    guard !isClaimed(inode.number, by: claimant), !isPinned(inode), !isOpen(inode.number),
      try catalog.dirtyStamp(inode.item) == nil
    else { throw Errno.resourceBusy }
    let isHeld =
      inode.content != .remote
      || inode.contentKey.map { content.existingPartial($0) != nil } ?? false
    if isHeld { try requireConfirmedStore(since: since) }
    try evictFile(inode)
  }

  private func evictFile(_ inode: Catalog.Inode) throws(Errno) {
    guard !isPinned(inode) else { throw Errno.resourceBusy }
    // A mapping that a daemon before this one has left behind is in no table. The file is unlinked,
    // never truncated: who has it mapped for reading keeps it.
    if inode.content == .local, let key = inode.contentKey, try content.hasWriter(key) {
      throw Errno.resourceBusy
    }
    let key = try catalog.evict(inode.number, isOpen: { self.isOpen($0) })
    evicted([(inode.number, key)])
  }

  /// Whether somebody whom no table has may write to the file: a mapping that a daemon before this
  /// one has left behind.
  func hasUnseenWriter(_ inode: Catalog.Inode) -> Bool {
    guard inode.content == .local, let key = inode.contentKey else { return false }
    return (try? content.hasWriter(key)) ?? true
  }

  func evictFiles(_ numbers: [InodeNumber], isNow: Bool = false) throws(Errno) {
    evicted(try catalog.evict(numbers, isOpen: { self.isOpen($0) }), isNow: isNow)
  }

  /// The catalog says durably that they are remote; now their bytes may go. `isNow`: before this
  /// returns, for who needs the room.
  func evicted(
    _ files: [(number: InodeNumber, obsolete: ContentKey)], isNow: Bool = false
  ) {
    FaultPoint.reach("evict.marked")
    for file in files {
      fetcher?.cancelBackgroundFetches(of: file.number)
      content.dropPartial(file.obsolete)
      if isNow { try? content.remove(file.obsolete) } else { discard(file.obsolete) }
    }
    invalidate(files.map { .content($0.number) })
    for file in files { tell(.evicted, file.number) }
  }

  /// A package is one document: all of it goes, or nothing.
  func evictPackage(_ number: InodeNumber, isNow: Bool = false) throws(Errno) {
    var files: [Catalog.Inode] = []
    try forEachBelow(number) { child in
      if child.kind == .file, !child.isExcluded { files.append(child) }
    }
    for file in files {
      let isDirty = try catalog.dirtyStamp(file.item) != nil
      guard !isDirty, file.version != nil, !isOpen(file.number), !isPinned(file),
        !hasUnseenWriter(file)
      else { throw Errno.resourceBusy }
      if file.linkCount > 1, try catalog.hasExcludedName(file.number) { throw Errno.notPermitted }
    }
    let held = files.filter { file in
      file.content == .local
        || (file.contentKey.map { content.existingPartial($0) != nil } ?? false)
    }
    try evictFiles(held.map(\.number), isNow: isNow)
  }

  /// Whether the directory is one document: by its mark or by the extension of its name.
  package func isPackage(_ inode: Catalog.Inode) throws(Errno) -> Bool {
    guard inode.kind == .directory, inode.item != .root, inode.item != .documents else {
      return false
    }
    if inode.isPackage { return true }
    guard let name = try catalog.firstLink(of: inode.number)?.name else { return false }
    return packages.contains(name)
  }

  /// Starts to bring the content of a file, or of every file below a directory, and returns.
  package func startDownload(_ number: InodeNumber, cause: DownloadCause) throws(Errno) {
    guard let fetcher else { throw Errno.networkDown }
    let inode = try catalog.inode(number)
    guard inode.kind == .directory else {
      startDownload(inode, cause, with: fetcher)
      return
    }
    try forEachBelow(number) { child in self.startDownload(child, cause, with: fetcher) }
  }

  private func startDownload(
    _ inode: Catalog.Inode, _ cause: DownloadCause, with fetcher: any ContentFetching
  ) {
    guard inode.kind == .file, inode.content == .remote else { return }
    fetcher.fetchInBackground(inode.number, cause: cause)
  }

  /// Pins an item: it and, of a directory, all that is or comes below it is downloaded and is never
  /// evicted.
  package func setPinned(
    _ number: InodeNumber, _ pinned: Bool, by requester: Requester? = nil
  ) throws(Errno) {
    try catalog.setPinned(number, pinned)
    tellStatus(below: number)
    noteEvictable()
    if pinned {
      do throws(Errno) {
        try startDownload(number, cause: DownloadCause(.pin, by: requester))
      } catch {
        // Offline: the pin holds, and the content comes when the device is online again.
        guard error == .networkDown else { throw error }
      }
    }
  }

  /// Whether the item or a directory above it is pinned.
  package func isPinned(_ inode: Catalog.Inode) -> Bool { keeping(of: inode).isPinned }

  /// `comparesNames`: whether its neighbours' names are looked at, which takes reading the
  /// directory when that is done in it for the first time.
  package func status(of number: InodeNumber, comparesNames: Bool = true) throws(Errno)
    -> ItemSyncStatus
  {
    let inode = try catalog.inode(number)
    var result = try isPackage(inode) ? packageStatus(inode) : itemStatus(inode)
    if comparesNames { result.nameCollision = try catalog.hasNameCollision(number) }
    return result
  }

  /// As above, for who knows this of it already, without a look at names.
  package func status(
    of inode: Catalog.Inode, isPackage: Bool, isPinned: Bool
  ) throws(Errno) -> ItemSyncStatus {
    try isPackage
      ? packageStatus(inode, isPinned: isPinned) : itemStatus(inode, isPinned: isPinned)
  }

  private func itemStatus(_ inode: Catalog.Inode, isPinned: Bool? = nil) throws(Errno)
    -> ItemSyncStatus
  {
    let number = inode.number
    let transfer = transferState(of: number)
    let remote = try catalog.remote(inode.item)
    let isDirty = try catalog.dirtyStamp(inode.item) != nil
    var isUploaded =
      !inode.isExcluded && !isDirty && remote != nil && transfer.storeProblem == nil
      && (inode.kind != .file || (inode.version != nil && remote?.content?.manifest != nil))
    if isUploaded, inode.kind == .file, try catalog.storeLacksContent(of: inode) {
      isUploaded = false
    }
    let isStale =
      inode.version != nil && remote?.content.map { $0.id != inode.version } ?? false
    let downloading: ItemSyncStatus.Downloading =
      switch (inode.content, isStale) {
      case (.remote, _): .notDownloaded
      case (.local, true): .downloaded
      case (.local, false): .current
      }
    return ItemSyncStatus(
      downloadingStatus: downloading,
      isDownloading: transfer.isDownloading,
      isUploading: transfer.isUploading,
      isUploaded: isUploaded,
      hasUnresolvedConflicts: !(remote?.unresolved.isEmpty ?? true),
      isExcludedFromSync: inode.isExcluded,
      isPinned: isPinned ?? self.isPinned(inode),
      isPackage: inode.isPackage,
      percentDownloaded: percentDownloaded(inode),
      percentUploaded: isUploaded ? 100 : transfer.percentUploaded,
      localBytes: localBytes(inode),
      downloadingError: transfer.downloadingError,
      uploadingError: transfer.uploadingError
        ?? (inode.isExcluded ? nil : transfer.storeProblem)
          ?? (isDirty && !isUploaded && !inode.isExcluded ? transfer.stoppedBy : nil),
      version: inode.version?.description,
      itemIdentifier: inode.item.description,
      container: container.description,
      policy: inode.kind == .directory ? inode.policy.rawValue : nil)
  }

  /// A package is what the files in it are: here when all are, sent when all are.
  private func packageStatus(_ inode: Catalog.Inode, isPinned: Bool? = nil) throws(Errno)
    -> ItemSyncStatus
  {
    var result = try itemStatus(inode, isPinned: isPinned)
    result.isPackage = true
    var below: [Catalog.Inode] = []
    try forEachBelow(inode.number) { if !$0.isExcluded { below.append($0) } }
    // Wide: the files may have any size, and a sparse file of an exbibyte costs nothing.
    var bytes: UInt128 = 0
    var present: UInt128 = 0
    var sent: UInt128 = 0
    var local: UInt128 = 0
    for child in below {
      let status = try itemStatus(child, isPinned: result.isPinned)
      if !status.isUploaded { result.isUploaded = false }
      guard child.kind == .file else { continue }
      switch (result.downloadingStatus, status.downloadingStatus) {
      case (_, .notDownloaded), (.notDownloaded, _): result.downloadingStatus = .notDownloaded
      case (_, .downloaded), (.downloaded, _): result.downloadingStatus = .downloaded
      case (.current, .current): break
      }
      result.isDownloading = result.isDownloading || status.isDownloading
      result.isUploading = result.isUploading || status.isUploading
      result.downloadingError = result.downloadingError ?? status.downloadingError
      result.uploadingError = result.uploadingError ?? status.uploadingError
      // So that an empty file counts for something.
      let size = UInt128(child.size) + 1
      bytes += size
      present += size * UInt128(min(100, max(0, status.percentDownloaded))) / 100
      local += UInt128(status.localBytes ?? 0)
      sent += size * UInt128(min(100, max(0, status.percentUploaded))) / 100
    }
    if result.downloadingStatus != .notDownloaded {
      result.percentDownloaded = 100
    } else {
      result.percentDownloaded = Int(min(99, present * 100 / max(1, bytes)))
    }
    result.localBytes = UInt64(clamping: local)
    result.percentUploaded =
      result.isUploaded ? 100 : bytes == 0 ? 0 : Int(min(99, sent * 100 / bytes))
    return result
  }

  private func percentDownloaded(_ inode: Catalog.Inode) -> Int {
    guard inode.kind == .file, inode.content == .remote else { return 100 }
    guard inode.size > 0 else { return 0 }
    return Int(UInt128(localBytes(inode) ?? 0) * 100 / UInt128(inode.size))
  }

  /// Nil for what is no file.
  private func localBytes(_ inode: Catalog.Inode) -> UInt64? {
    guard inode.kind == .file else { return nil }
    guard inode.content == .remote else { return inode.size }
    let key = ContentKey(item: inode.item, generation: inode.generation)
    return min(content.existingPartial(key)?.presentBytes ?? 0, inode.size)
  }

  /// Visits everything below a directory, parents first. The catalog is asked a page at a time, so
  /// that a large tree does not hold its lock.
  package func forEachBelow(_ number: InodeNumber, _ body: (Catalog.Inode) -> Void) throws(Errno) {
    var pending = [number]
    while let directory = pending.popLast() {
      var offset: Int64 = 0
      while true {
        let page = try catalog.readDirectory(directory, after: offset, limit: 512)
        guard let last = page.last else { break }
        for entry in page {
          body(entry.inode)
          if entry.inode.kind == .directory { pending.append(entry.inode.number) }
        }
        offset = last.offset
      }
    }
  }
}
