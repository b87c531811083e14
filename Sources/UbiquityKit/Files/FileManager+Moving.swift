internal import ControlProtocol
internal import DaemonClient
public import Foundation
internal import Glibc
internal import Platform
internal import SystemPackage

extension FileManager {
  /// Moves a file or a directory with all that is in it into a container, or out of it.
  ///
  /// With `true` it goes from `url`, outside of containers, to `destinationURL`, in one; the URL of
  /// the destination is the item's new one, and its directory is there. With `false` it goes the
  /// other way, and leaves the account on every device: its content is brought here first.
  ///
  /// In a container it appears, and goes, as a whole: with one rename, under a claim for writing
  /// that presenters are asked about and others wait for. At no moment is it in neither place, even
  /// if the program or the machine stops: its copy is on the disk before the original goes. It may
  /// then be in both. Modes, times, extended attributes, holes and links come along; sockets and
  /// devices do not, and make it fail.
  ///
  /// Throws `CocoaError`, and then nothing has moved: `fileWriteFileExists` where there is
  /// something at the destination, `fileNoSuchFile` where there is nothing to move or no directory
  /// to move to, `featureUnsupported` when both are in containers or neither is (that is what
  /// `moveItem(at:to:)` is for), `fileLocking` when a program writes to it meanwhile,
  /// `fileWriteOutOfSpace`, and those of ``Foundation/FileManager/downloadUbiquitousItem(at:)``.
  ///
  /// It copies, waits for claims and may wait for the backend: not on the main thread, and not
  /// within a coordinated access to either of the two.
  ///
  /// Source: the iOS 5 Tech Talk, "Moving a File into or out of the Ubiquity Container".
  public func setUbiquitous(_ flag: Bool, itemAt url: URL, destinationURL: URL) throws {
    if flag {
      try ItemMoving.into(url, destinationURL)
    } else {
      try ItemMoving.out(url, destinationURL)
    }
  }

  /// `setUbiquitous(true, itemAt:destinationURL:)` without blocking the caller's thread. It goes on
  /// when the task is cancelled.
  public func moveItem(at url: URL, intoContainerAt destinationURL: URL) async throws {
    try await ItemCalls.onThread { try ItemMoving.into(url, destinationURL) }
  }

  /// `setUbiquitous(false, itemAt:destinationURL:)` without blocking the caller's thread. It goes
  /// on when the task is cancelled.
  public func moveItem(at url: URL, outOfContainerTo destinationURL: URL) async throws {
    try await ItemCalls.onThread { try ItemMoving.out(url, destinationURL) }
  }
}

private enum ItemMoving {
  // MARK: Into a container

  static func into(_ url: URL, _ destination: URL) throws(CocoaError) {
    let source = try path(url, mustBeThere: true)
    guard isOutside(url) else { throw unsupported("the item is already in a container", url) }
    let place = try former(destination)
    guard let place, !VersionsPlace.contains(place) else {
      throw unsupported("the destination is not in a container", destination)
    }
    let target = try path(destination, mustBeThere: false)
    let mountpoint = FilePath(String(decoding: place.mountpoint.bytes, as: UTF8.self))
    // What could not be removed in the end would be in both places.
    guard source.removingLastComponent().orHere.isWritable else {
      throw UbiquityErrors.cocoa(Errno.permissionDenied, .writing, at: url)
    }
    let moving = try doing(destination) { () throws(Errno) in
      try MovingPlace(in: mountpoint)
    }
    defer { moving.end() }
    let copy = try copy(source, to: moving.item, url)
    FaultPoint.reach("kit.in.ready")
    try ItemCalls.withClaim(on: [place], options: [], at: destination) { () throws(CocoaError) in
      try checkUnchanged(copy, url)
      try doing(destination) { () throws(Errno) in
        try moving.item.renameExclusively(to: target)
        try target.removingLastComponent().orHere.synchronizeDirectory()
      }
    }
    FaultPoint.reach("kit.in.placed")
    try doing(url) { () throws(Errno) in try source.removeTree() }
  }

  // MARK: Out of a container

  static func out(_ url: URL, _ destination: URL) throws(CocoaError) {
    let source = try path(url, mustBeThere: true)
    guard !isOutside(url) else { throw unsupported("the item is not in a container", url) }
    let item = try ItemCalls.locate(url, .writing)
    guard !item.path.bytes.isEmpty, !VersionsPlace.contains(item) else {
      throw unsupported("this is not an item of a container", url)
    }
    guard try former(destination) == nil else {
      throw unsupported("the destination is in a container", destination)
    }
    let target = try path(destination, mustBeThere: false)
    // The most of it before others have to wait.
    try Downloads.bring(url)
    let ready = try doing(destination) { () throws(Errno) in
      try MovingPlace(in: target.removingLastComponent().orHere)
    }
    defer { ready.end() }
    let mountpoint = FilePath(String(decoding: item.mountpoint.bytes, as: UTF8.self))
    try ItemCalls.withClaim(on: [item], options: ["forMoving"], at: url) { () throws(CocoaError) in
      try Downloads.bring(url)
      let copy = try copy(source, to: ready.item, url)
      let moving = try doing(url) { () throws(Errno) in try MovingPlace(in: mountpoint) }
      defer { moving.end() }
      try checkUnchanged(copy, url)
      FaultPoint.reach("kit.out.ready")
      try doing(destination) { () throws(Errno) in
        try ready.item.renameExclusively(to: target)
        try target.removingLastComponent().orHere.synchronizeDirectory()
      }
      FaultPoint.reach("kit.out.placed")
      try doing(url) { () throws(Errno) in try source.rename(to: moving.item) }
      FaultPoint.reach("kit.out.gone")
    }
  }

  // MARK: Both

  private static func path(_ url: URL, mustBeThere: Bool) throws(CocoaError) -> FilePath {
    let path = try ItemCalls.path(url)
    if mustBeThere {
      try doing(url) { () throws(Errno) in _ = try path.status() }
    } else {
      guard !path.isThere else {
        throw UbiquityErrors.cocoa(Errno.fileExists, .writing, at: url)
      }
      try doing(url) { () throws(Errno) in
        guard
          try path.removingLastComponent().orHere.appending(".").status().st_mode & S_IFMT
            == S_IFDIR
        else { throw .notDirectory }
      }
    }
    return path
  }

  private static func isOutside(_ url: URL) -> Bool {
    (try? ItemCalls.locate(url, .writing)) == nil
  }

  /// Where it will be in a container; nil where it is going to be in none.
  private static func former(_ url: URL) throws(CocoaError) -> ItemReference? {
    let path = ItemCalls.bytes(try ItemCalls.path(url))
    do throws(ControlError) { return try ItemLocator.locateFormer(path) } catch {
      guard error.status == .notFound else {
        throw UbiquityErrors.cocoa(error, .writing, at: url)
      }
      return nil
    }
  }

  private static func copy(_ source: FilePath, to target: FilePath, _ url: URL) throws(CocoaError)
    -> TreeCopy
  {
    var copy = TreeCopy()
    do throws(TreeCopy.Failure) {
      try copy.run(source, to: target)
      return copy
    } catch {
      let doing: UbiquityErrors.Doing = error.error == .noSpace ? .writing : .reading
      throw UbiquityErrors.cocoa(
        error.error, doing, at: URL(fileURLWithPath: error.path.string))
    }
  }

  private static func checkUnchanged(_ copy: TreeCopy, _ url: URL) throws(CocoaError) {
    guard let changed = copy.firstChange() else { return }
    throw UbiquityErrors.cocoa(
      .fileLocking, "\"\(changed)\" changed during the move; nothing was moved", at: url)
  }

  private static func doing<Value>(_ url: URL, _ body: () throws(Errno) -> Value)
    throws(CocoaError) -> Value
  {
    do throws(Errno) { return try body() } catch {
      throw UbiquityErrors.cocoa(error, .writing, at: url)
    }
  }

  private static func unsupported(_ message: String, _ url: URL) -> CocoaError {
    UbiquityErrors.cocoa(.featureUnsupported, "\(url.path): \(message)", at: url)
  }
}

extension FilePath {
  /// The directory that a path without one is in.
  fileprivate var orHere: FilePath { isEmpty ? FilePath(".") : self }
}
