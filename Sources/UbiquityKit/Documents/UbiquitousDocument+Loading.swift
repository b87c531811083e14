internal import Foundation

extension UbiquitousDocument {
  /// What was found on the disk.
  struct Found: Sendable {
    let contents: DocumentContents
    let version: Int?
    let isInConflict: Bool
    let url: URL
  }

  nonisolated static let formatAttribute = "user.document.formatVersion"

  // MARK: Opening

  func performOpen() async -> Bool {
    guard documentState.contains(.closed) else { return true }
    let watching = watchProgress()
    defer { watching?.cancel() }
    do {
      let found = try await core.onDisk { [self] in
        NSFileCoordinator.addFilePresenter(self)
        return try Self.read(core.url, for: self)
      }
      try take(found)
    } catch {
      NSFileCoordinator.removeFilePresenter(self)
      documentState.remove(.progressAvailable)
      handleError(error, userInteractionPermitted: true)
      return false
    }
    edits = EditCount()
    documentState.subtract([.closed, .progressAvailable])
    // What came in between.
    await check()
    return true
  }

  /// On the disk's thread.
  nonisolated static func read(
    _ url: URL, for presenter: (any NSFilePresenter)?
  ) throws -> Found {
    try NSFileCoordinator(filePresenter: presenter).coordinate(readingItemAt: url) { place in
      guard let stamp = FileStamp(place) else { throw UbiquityErrors.missing(place) }
      let value: DocumentContents.Value =
        stamp.isDirectory
        ? .wrapper(try FileWrapper(url: place)) : .data(try Data(contentsOf: place))
      let version = ItemCalls.text(formatAttribute, of: place).flatMap { Int($0) }
      return Found(
        contents: DocumentContents(value, stamp), version: version,
        isInConflict: isInConflict(place), url: place)
    }
  }

  nonisolated static func isInConflict(_ url: URL) -> Bool {
    ItemCalls.text("user.ubiquity.hasUnresolvedConflicts", of: url) == "1"
  }

  /// Loads what was found.
  func take(_ found: Found) throws {
    let any = found.contents.any
    let version = formatVersion(ofContents: any) ?? found.version ?? 0
    // What the subclass does to its wrapper is not what is on the disk.
    let snapshot = found.contents.snapshot().contents
    try load(fromContents: any, ofType: fileType)
    loaded = snapshot
    fileModificationDate = found.contents.stamp?.modificationDate
    setState(.inConflict, found.isInConflict)
    let isTooNew = !canEdit(formatVersion: version)
    setDisabled(.newerFormat, isTooNew)
    if isTooNew {
      handleError(
        NewerDocumentFormat(
          url: fileURL, documentVersion: version, supportedVersion: Self.formatVersion),
        userInteractionPermitted: true)
    }
  }

  func setState(_ state: State, _ isSet: Bool) {
    if isSet { documentState.insert(state) } else { documentState.remove(state) }
  }

  func setDisabled(_ reason: DisablingReason, _ isDisabled: Bool) {
    let before = disabling.isEmpty
    if isDisabled { disabling.insert(reason) } else { disabling.remove(reason) }
    guard disabling.isEmpty != before else { return }
    setState(.editingDisabled, !disabling.isEmpty)
    if disabling.isEmpty { enableEditing() } else { disableEditing() }
  }

  /// Nil when there is nothing to download.
  private func watchProgress() -> Task<Void, Never>? {
    let name = "user.ubiquity.downloadingStatus"
    guard ItemCalls.text(name, of: fileURL) == "notDownloaded" else { return nil }
    progress.completedUnitCount = 0
    documentState.insert(.progressAvailable)
    return Task {
      while !Task.isCancelled {
        let text = ItemCalls.text("user.ubiquity.percentDownloaded", of: fileURL)
        if let percent = text.flatMap({ Double($0) }) {
          progress.completedUnitCount = Int64(percent)
        }
        try? await Task.sleep(for: .milliseconds(200))
      }
      progress.completedUnitCount = progress.totalUnitCount
    }
  }

  // MARK: What others did

  /// Looks whether the file is what was loaded, and takes it over if it is not and nothing is
  /// unsaved.
  func check() async {
    guard !documentState.contains(.closed), !isChecking else {
      mustCheckAgain = isChecking
      return
    }
    isChecking = true
    defer { isChecking = false }
    repeat {
      mustCheckAgain = false
      await checkOnce()
    } while mustCheckAgain && !documentState.contains(.closed)
  }

  private func checkOnce() async {
    let known = loaded
    let mayLoad = !hasUnsavedChanges
    do {
      let (found, isInConflict) = try await core.onDisk { [self] () -> (Found?, Bool?) in
        let url = core.url
        // One that is gone has moved, or is about to be told of.
        guard FileStamp(url) != nil else { return (nil, nil) }
        guard mayLoad, known?.isUnchanged(at: url) != true else {
          return (nil, Self.isInConflict(url))
        }
        let found = try Self.read(url, for: self)
        return (found, found.isInConflict)
      }
      guard !documentState.contains(.closed) else { return }
      if let isInConflict { setState(.inConflict, isInConflict) }
      // Edits that were made meanwhile stay, and so do their stamps: the next save finds the other
      // content.
      guard let found, !hasUnsavedChanges else { return }
      if case .data(let new) = found.contents.value, case .data(let old)? = loaded?.value,
        new == old, found.version == nil || !disabling.contains(.newerFormat)
      {
        loaded = found.contents
        fileModificationDate = found.contents.stamp?.modificationDate
        return
      }
      try take(found)
      edits.note(.cleared)
    } catch {
      handleError(error, userInteractionPermitted: false)
    }
  }

  func performRevert(to url: URL) async -> Bool {
    do {
      let found = try await core.onDisk { [self] in try Self.read(url, for: self) }
      let known = loaded
      try take(found)
      if found.url == fileURL {
        edits.note(.cleared)
      } else {
        loaded = known
        updateChangeCount(.done)
      }
      return true
    } catch {
      handleError(error, userInteractionPermitted: true)
      return false
    }
  }
}
