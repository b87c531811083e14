internal import Catalog
internal import Glibc
internal import Model
internal import Platform
internal import SystemPackage

/// One batch that is done once more, on the echo's thread.
final class EchoRun {
  enum Outcome {
    case done
    /// Somebody looked the name up in between; it may work the next time.
    case again
    case failed
  }

  /// `AT_SYMLINK_NOFOLLOW` and `AT_REMOVEDIR`, `UTIME_NOW` and `UTIME_OMIT`.
  static let noFollow: Int32 = 0x100
  private static let removeDirectory: Int32 = 0x200
  private static let now = timespec(tv_sec: 0, tv_nsec: (1 << 30) - 1)
  private static let omit = timespec(tv_sec: 0, tv_nsec: (1 << 30) - 2)

  private let root: OpenFile
  /// Where something else is mounted in the mount, nothing is done.
  private let device: dev_t?
  private let stage: EchoStage
  private let catalog: ContainerCatalog
  private let settle: ([EchoPlace]) -> Bool
  /// Directories that were moved or removed and whose turn has not come: where they are till then.
  private var former: [InodeNumber: (parent: InodeNumber, name: ItemName)] = [:]
  /// The directory that was used last.
  private var last: (number: InodeNumber, file: OpenFile)?

  init(
    _ changes: [ItemChange], _ told: [ItemChange], root: OpenFile, stage: EchoStage,
    catalog: ContainerCatalog, settle: @escaping ([EchoPlace]) -> Bool
  ) {
    self.root = root
    device = Self.device(root.descriptor, "")
    self.stage = stage
    self.catalog = catalog
    self.settle = settle
    for change in changes where change.kind == .directory && change.what == .removed {
      former[change.number] = (change.parent, change.name)
    }
    for change in told where change.kind == .directory {
      if case .moved(let parent, let name) = change.what { former[change.number] = (parent, name) }
    }
    stage.setFormer(
      Dictionary(
        former.map { number, place in
          (EchoPlace(place.parent, place.name), .present(number, .directory))
        }, uniquingKeysWith: { first, _ in first }))
  }

  func play(_ change: ItemChange) -> Outcome {
    let place = EchoPlace(change.parent, change.name)
    switch change.what {
    case .created:
      let outcome = made(change, place)
      // As whoever writes a file here makes it, opens it, writes and closes it.
      // A further name of a file is nothing but that.
      if outcome == .done, change.kind == .file,
        let made = try? catalog.inode(change.number), made.linkCount == 1
      {
        _ = touched(change, place, isContent: true)
      }
      return outcome
    case .removed:
      let isDirectory = change.kind == .directory
      let outcome = perform(
        .remove(place, isDirectory: isDirectory),
        where: [place: .present(change.number, change.kind)], change.parent
      ) { directory in
        change.name.withBytes {
          unlinkat(directory, $0, isDirectory ? Self.removeDirectory : 0)
        }
      }
      if outcome != .again { settled(change) }
      return outcome
    case .moved(let parent, let name):
      let outcome = moved(change, from: parent, name)
      if outcome != .again { settled(change) }
      return outcome
    case .changed: return touched(change, place, isContent: true)
    case .attributes: return touched(change, place, isContent: false)
    }
  }

  /// A directory that had been elsewhere is from now on where it is.
  private func settled(_ change: ItemChange) {
    guard change.kind == .directory, let place = former.removeValue(forKey: change.number) else {
      return
    }
    stage.dropFormer(EchoPlace(place.parent, place.name))
    last = nil
  }

  // MARK: The operations

  private func made(_ change: ItemChange, _ place: EchoPlace) -> Outcome {
    perform(.make(place, change.number, change.kind), where: [place: .absent], change.parent) {
      directory in
      change.name.withBytes { name in
        switch change.kind {
        case .directory: mkdirat(directory, name, 0o755)
        case .symbolicLink: symlinkat(".", directory, name)
        default: mknodat(directory, name, S_IFREG | 0o644, 0)
        }
      }
    }
  }

  private func moved(_ change: ItemChange, from parent: InodeNumber, _ name: ItemName) -> Outcome {
    let (old, new) = (EchoPlace(parent, name), EchoPlace(change.parent, change.name))
    guard let target = directory(change.parent) else { return .failed }
    return perform(
      .move(from: old, to: new), where: [old: .present(change.number, change.kind), new: .absent],
      parent
    ) { directory in
      name.withBytes { name in
        // A directory has one place in the kernel's tree; it cannot go from another to the old one
        // while it is being renamed, but before that it can.
        var status = Glibc.stat()
        if change.kind == .directory { _ = fstatat(directory, name, &status, Self.noFollow) }
        stage.forgetAsked()
        return change.name.withBytes { renameat(directory, name, target.descriptor, $0) }
      }
    }
  }

  /// Setting the modification time alone is told as a change of the content, both times as one of
  /// attributes.
  private func touched(_ change: ItemChange, _ place: EchoPlace, isContent: Bool) -> Outcome {
    let times = [isContent ? Self.omit : Self.now, Self.now]
    return perform(.touch(change.number), where: [:], change.parent) { directory in
      change.name.withBytes { name in
        let file =
          isContent && change.kind == .file && Self.device(directory, name) == device
          ? openat(directory, name, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC) : -1
        guard file >= 0 else {
          guard Self.device(directory, name) == device else { return -1 }
          return utimensat(directory, name, times, Self.noFollow)
        }
        defer { close(file) }
        return futimens(file, times)
      }
    }
  }

  private func perform(
    _ operation: EchoStage.Operation, where names: [EchoPlace: EchoStage.Answer],
    _ parent: InodeNumber, _ body: (Int32) -> Int32
  ) -> Outcome {
    guard let directory = directory(parent), settle(Array(names.keys)) else { return .failed }
    stage.expect(operation, where: names)
    defer { stage.expect(nil, where: [:]) }
    let code = body(directory.descriptor) == 0 ? 0 : errno
    if stage.isDone { return .done }
    return [0, EEXIST, ENOENT, ESTALE, ENOTEMPTY, EISDIR, ENOTDIR, ECANCELED].contains(code)
      ? .again : .failed
  }

  // MARK: Directories

  /// The directory where it is now for the echo.
  private func directory(_ number: InodeNumber) -> OpenFile? {
    if number == .root { return root }
    if let last, last.number == number { return last.file }
    var names: [ItemName] = []
    var current = number
    var file = root
    while current != .root {
      // In a deep tree that comes from elsewhere each directory is in the one before it.
      if let last, last.number == current {
        file = last.file
        break
      }
      guard names.count < 10_000, let place = place(of: current) else { return nil }
      names.append(place.name)
      current = place.parent
    }
    for name in names.reversed() {
      let descriptor = name.withBytes {
        openat(file.descriptor, $0, ChangeEcho.path | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
      }
      guard descriptor >= 0 else { return nil }
      file = OpenFile(owning: descriptor)
      guard Self.device(descriptor, "") == device else { return nil }
    }
    last = (number, file)
    return file
  }

  /// `AT_EMPTY_PATH`: an empty name is the descriptor itself.
  private static let emptyPath: Int32 = 0x1000

  private static func device(_ descriptor: Int32, _ name: UnsafePointer<CChar>) -> dev_t? {
    var status = Glibc.stat()
    return fstatat(descriptor, name, &status, noFollow | emptyPath) == 0 ? status.st_dev : nil
  }

  private func place(of number: InodeNumber) -> (parent: InodeNumber, name: ItemName)? {
    if let place = former[number] { return place }
    return (try? catalog.firstLink(of: number)) ?? nil
  }
}

extension ItemName {
  fileprivate func withBytes(_ body: (UnsafePointer<CChar>) -> Int32) -> Int32 {
    (bytes + [0]).withUnsafeBytes { bytes in
      guard let start = bytes.baseAddress else { return -1 }
      return body(start.assumingMemoryBound(to: CChar.self))
    }
  }
}
