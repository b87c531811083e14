internal import Foundation

extension UbiquitousDocument {
  // MARK: When

  /// Sees to it that what is unsaved is saved soon: a moment after the last edit, and not put off
  /// for ever.
  func noteUnsaved() {
    guard hasUnsavedChanges, !documentState.contains(.closed) else {
      autosaving?.cancel()
      autosaving = nil
      unsavedSince = nil
      return
    }
    let now = ContinuousClock.now
    let first = unsavedSince ?? now
    unsavedSince = first
    let delay = Duration.seconds(autosavingDelay)
    guard autosaving == nil || now - first < delay * 10 else { return }
    autosaving?.cancel()
    autosaving = Task { [weak self] in
      try? await Task.sleep(for: delay)
      guard !Task.isCancelled, let self else { return }
      self.autosaving = nil
      self.unsavedSince = nil
      guard !self.documentState.contains(.closed) else { return }
      await self.autosave()
    }
  }

  // MARK: Saving

  /// What is to be written, and what is known of what is there. Used by one thread at a time.
  struct Writing: @unchecked Sendable {
    let contents: DocumentContents
    let known: DocumentContents?
    let version: Int
    let operation: SaveOperation
  }

  func performSave(to url: URL, for operation: SaveOperation) async -> Bool {
    do {
      try await store(url, operation)
      documentState.remove(.savingError)
      return true
    } catch {
      documentState.insert(.savingError)
      handleError(error, userInteractionPermitted: true)
      return false
    }
  }

  private func store(_ url: URL, _ operation: SaveOperation) async throws {
    guard !disabling.contains(.newerFormat) else {
      throw UbiquityErrors.cocoa(
        .fileWriteNoPermission,
        "\"\(url.lastPathComponent)\" has a newer format than this program writes", at: url)
    }
    guard operation == .forCreating || !documentState.contains(.closed) else {
      throw UbiquityErrors.cocoa(
        .fileWriteUnknown, "the document is not open", at: url)
    }
    let token = changeCountToken(for: operation)
    let any = try contents(forType: fileType ?? "")
    guard let given = DocumentContents(any) else {
      throw UbiquityErrors.cocoa(
        .featureUnsupported,
        "contents(forType:) must return Data or a FileWrapper, not \(type(of: any))", at: url)
    }
    let snapshot = given.snapshot()
    let writing = Writing(
      contents: snapshot.contents, known: operation == .forOverwriting ? loaded : nil,
      version: Self.formatVersion, operation: operation)
    let isAtHome =
      operation == .forOverwriting || (url == fileURL && !documentState.contains(.closed))
    let stored = try await core.onDisk { [self] in
      try Self.write(writing, to: isAtHome ? core.url : url, for: self)
    }
    snapshot.settle()
    loaded = DocumentContents(snapshot.contents.value, stored)
    fileModificationDate = stored?.modificationDate
    if !isAtHome { await move(to: url) }
    updateChangeCount(withToken: token, for: operation)
  }

  /// The document is somewhere else from now on.
  private func move(to url: URL) async {
    _ = try? await core.onDisk { [self] in
      NSFileCoordinator.removeFilePresenter(self)
      core.url = url
      NSFileCoordinator.addFilePresenter(self)
    }
    documentState.subtract([.closed, .inConflict])
  }

  /// On the disk's thread. Gives what is there then.
  nonisolated static func write(
    _ writing: Writing, to url: URL, for presenter: any NSFilePresenter
  ) throws -> FileStamp? {
    let options: NSFileCoordinator.WritingOptions =
      writing.operation == .forCreating && FileStamp(url) != nil ? .forReplacing : []
    return try NSFileCoordinator(filePresenter: presenter).coordinate(
      writingItemAt: url, options: options
    ) { place in
      if let known = writing.known, FileStamp(place) != nil, !known.isUnchanged(at: place) {
        try keepUnknown(at: place, known, writing.contents)
      }
      let version = Array("\(writing.version)".utf8)
      let attributes = writing.version > 0 ? [formatAttribute: version] : [:]
      switch writing.contents.value {
      case .data(let data):
        if FileStamp(place)?.isDirectory == true {
          try FileManager.default.removeItem(at: place)
        }
        if isStored(data, writing.known, at: place),
          attributes.isEmpty || ItemCalls.attribute(formatAttribute, of: place) == version
        {
          break
        }
        try SafeWriting.replace(place, with: data, attributes: attributes)
      case .wrapper(let wrapper):
        try wrapper.write(to: place, options: [.atomic], originalContentsURL: place)
        for (name, value) in attributes
        where ItemCalls.attribute(name, of: place) != value {
          try ItemCalls.setAttribute(name, value, of: place)
        }
      }
      return FileStamp(place)
    }
  }

  /// "Never save document state unless document content was edited."
  private nonisolated static func isStored(
    _ data: Data, _ known: DocumentContents?, at url: URL
  ) -> Bool {
    guard let known, known.isUnchanged(at: url), case .data(let old) = known.value else {
      return false
    }
    return old == data
  }

  /// Somebody wrote who did not ask: what is there is kept beside the document.
  private nonisolated static func keepUnknown(
    at url: URL, _ known: DocumentContents, _ own: DocumentContents
  ) throws {
    if case .data(let old) = known.value {
      let found = try Data(contentsOf: url)
      if found == old { return }
      if case .data(let new) = own.value, new == found { return }
    }
    let stem = url.deletingPathExtension().lastPathComponent
    let ending = url.pathExtension.isEmpty ? "" : "." + url.pathExtension
    for number in 2... {
      let copy = url.deletingLastPathComponent().appendingPathComponent(
        "\(stem) \(number)\(ending)")
      guard !copy.isThere else { continue }
      return try FileManager.default.copyItem(at: url, to: copy)
    }
  }

  // MARK: Closing

  func performClose() async -> Bool {
    guard !documentState.contains(.closed) else { return true }
    guard await autosave() else { return false }
    end()
    // What still runs is about the file.
    _ = try? await core.onDisk {}
    return true
  }

  private func end() {
    autosaving?.cancel()
    autosaving = nil
    NSFileCoordinator.removeFilePresenter(self)
    loaded = nil
    disabling = []
    documentState = .closed
  }

  // MARK: For others

  nonisolated func letRead(
    _ reader: @escaping @Sendable ((@Sendable () -> Void)?) -> Void
  ) {
    // When what is being written is written.
    core.afterDisk { reader(nil) }
  }

  nonisolated func letWrite(
    _ writer: @escaping @Sendable ((@Sendable () -> Void)?) -> Void
  ) {
    Task { @MainActor in
      // Then both contents are there, and neither takes the other's place unseen.
      if hasUnsavedChanges, !documentState.contains(.closed) { await autosave() }
      setDisabled(.others, true)
      writer {
        Task { @MainActor in
          self.setDisabled(.others, false)
          await self.check()
        }
      }
    }
  }

  nonisolated func saveForOthers(_ completion: @escaping @Sendable ((any Error)?) -> Void) {
    Task { @MainActor in
      let isSaved = documentState.contains(.closed) ? true : await autosave()
      completion(
        isSaved
          ? nil
          : UbiquityErrors.cocoa(
            .fileWriteUnknown, "cannot save \"\(localizedName)\"", at: fileURL))
    }
  }

  nonisolated func closeForDeletion(_ completion: @escaping @Sendable ((any Error)?) -> Void) {
    Task { @MainActor in
      end()
      completion(nil)
    }
  }
}

extension DocumentContents {
  /// What can be written while the program goes on with the contents, and what to do with them
  /// afterwards.
  struct Snapshot {
    let contents: DocumentContents
    fileprivate var pairs: [(original: FileWrapper, copy: FileWrapper)] = []

    /// The originals know that they are stored.
    func settle() {
      for (original, copy) in pairs {
        original.source = copy.source
        original.filename = copy.filename
      }
    }
  }

  func snapshot() -> Snapshot {
    guard case .wrapper(let wrapper) = value else { return Snapshot(contents: self) }
    var pairs: [(FileWrapper, FileWrapper)] = []
    func copy(_ original: FileWrapper) -> FileWrapper {
      let copy: FileWrapper
      switch original.kind {
      case .directory(let children):
        copy = FileWrapper(directoryWithFileWrappers: [:])
        copy.kind = .directory(children.mapValues(copyOf))
      case .file(let data):
        copy = FileWrapper(regularFileWithContents: data ?? Data())
        copy.kind = original.kind
      case .link(let url): copy = FileWrapper(symbolicLinkWithDestinationURL: url)
      }
      copy.source = original.source
      copy.filename = original.filename
      copy.preferredFilename = original.preferredFilename
      pairs.append((original, copy))
      return copy
    }
    func copyOf(_ child: FileWrapper) -> FileWrapper { copy(child) }
    let top = copy(wrapper)
    return Snapshot(contents: DocumentContents(.wrapper(top), stamp), pairs: pairs)
  }
}
