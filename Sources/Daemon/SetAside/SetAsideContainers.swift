internal import Catalog
internal import ContentStore
internal import ControlProtocol
internal import FoundationEssentials
internal import Glibc
internal import Logging
internal import Model
internal import Platform
internal import SystemPackage

/// What this device keeps of containers that its account no longer has: `set-aside/NAME`, each as
/// it was in `containers`, with its catalog and its content files. Nothing of it is ever removed
/// but by the user.
struct SetAsideContainers {
  private struct Note: Codable {
    var container: String
    /// Nanoseconds since 1970.
    var time: Int64
    var reason: String
  }

  /// One at a time: a catalog has one owner.
  private static let turn = Lock(())

  private let place: String
  private let logger: Logger

  init(_ state: StateDirectory, logger: Logger) {
    place = state.setAside
    self.logger = logger
  }

  // MARK: Setting aside

  /// Moves a container's directory here, which nothing has open. Gives its new name.
  func add(_ directory: ContainerDirectory, reason: String) throws(ControlError) -> String {
    do {
      try Files.makeDirectories(place)
      var name = directory.id.description
      var number = 2
      while Files.exists("\(place)/\(name)") {
        name = "\(directory.id).\(number)"
        number += 1
      }
      let note = Note(
        container: directory.id.description, time: SystemClock().nanoseconds(), reason: reason)
      let bytes = Array(try JSONEncoder().encode(note))
      try Files.replace(directory.path + "/" + Self.note, with: bytes + [0x0A])
      try Files.rename(directory.path, "\(place)/\(name)")
      try Files.synchronizeDirectory(place)
      return name
    } catch {
      throw ControlError(.failed, "cannot move \"\(directory.path)\" to \"\(place)\": \(error)")
    }
  }

  private static let note = "set-aside.json"

  // MARK: Looking

  func list() throws(ControlError) -> [SetAsideEntry] {
    try Self.turn.withLock { _ throws(ControlError) in
      let names: [String]
      do throws(Errno) { names = try Files.names(in: place) } catch .noSuchFileOrDirectory {
        return []
      } catch {
        throw ControlError(.failed, "cannot read \"\(place)\": \(error)")
      }
      return names.filter { Files.exists("\(place)/\($0)/catalog.sqlite") }.map(entry)
    }
  }

  private func readNote(_ name: String) -> Note? {
    (try? Files.read("\(place)/\(name)/\(Self.note)")).flatMap {
      try? BoundedJSON.decode(Note.self, from: $0)
    }
  }

  private func entry(_ name: String) -> SetAsideEntry {
    let note = readNote(name)
    var entry = SetAsideEntry(
      id: name, container: note?.container ?? name, directory: "\(place)/\(name)")
    entry.time = note.map { Instant.text(Timestamp(nanoseconds: $0.time)) }
    entry.reason = note?.reason
    do throws(ControlError) {
      try withOpened(name) { catalog, _ throws(ControlError) in
        do throws(Errno) {
          try catalog.forEachInode { inode in
            guard inode.kind == .file, !inode.isOrphan else { return }
            if inode.content == .local {
              entry.files += 1
              entry.bytes &+= inode.size
            } else {
              entry.placeholders += 1
            }
          }
          entry.pendingUploads = try catalog.dirtyCount()
        } catch {
          throw ControlError(mapping: error)
        }
      }
    } catch {
      entry.error = error.message
    }
    return entry
  }

  // MARK: Restoring

  /// Copies the local items of an entry into a directory, which is made, or is empty. `continues`:
  /// it may have files of an earlier call, and no file is replaced. The result lists the items that
  /// cannot be copied; everything else is copied.
  func restore(
    _ name: String, to directory: String, continues: Bool
  ) throws(ControlError) -> RestoredSetAside {
    try check(name)
    return try Self.turn.withLock { _ throws(ControlError) in
      try withOpened(name) { catalog, content throws(ControlError) -> RestoredSetAside in
        do {
          try Files.makeDirectories(directory, mode: 0o777)
          guard try continues || Files.names(in: directory).isEmpty else {
            throw ControlError(
              .busy,
              "\"\(directory)\" is not empty; name another directory, or add --continue if an "
                + "earlier restore of \"\(name)\" did not copy everything there")
          }
          var export = try TreeExport(
            catalog: catalog, content: content, to: directory, continues: continues)
          try export.run()
          return export.result
        } catch let error as ControlError {
          throw error
        } catch {
          throw ControlError(
            .failed,
            "cannot restore \"\(name)\" to \"\(directory)\": \(error); the copied items stay")
        }
      }
    }
  }

  func remove(_ name: String) throws(ControlError) {
    try check(name)
    try Self.turn.withLock { _ throws(ControlError) in
      do throws(Errno) {
        try Files.removeTree("\(place)/\(name)")
      } catch {
        throw ControlError(.failed, "cannot remove \"\(place)/\(name)\": \(error)")
      }
    }
  }

  private func check(_ name: String) throws(ControlError) {
    guard !name.isEmpty, !name.contains("/"), name != ".", name != "..",
      Files.exists("\(place)/\(name)")
    else {
      throw ControlError(
        .notFound,
        "no set-aside container has the name \"\(name)\"; see `ubiquityfs container set-aside list`"
      )
    }
  }

  private func withOpened<Result>(
    _ name: String, _ body: (ContainerCatalog, ContentFiles) throws(ControlError) -> Result
  ) throws(ControlError) -> Result {
    let path = "\(place)/\(name)"
    let catalog: ContainerCatalog
    let content: ContentFiles
    do {
      catalog = try ContainerCatalog(
        path: path + "/catalog.sqlite", owner: geteuid(), group: getegid(), clock: SystemClock())
      content = try ContentFiles(directory: path + "/content")
      try ContainerSession.recover(catalog, content, logger)
    } catch {
      throw ControlError(.failed, "cannot open \"\(path)\": \(ControlError(mapping: error))")
    }
    defer { try? catalog.close() }
    return try body(catalog, content)
  }
}
