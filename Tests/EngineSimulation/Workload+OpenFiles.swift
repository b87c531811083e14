import Catalog
import FileSystem
import Model
import Platform
import SystemPackage

/// Programs that keep a file open for minutes, such as one that writes a log or a database, while
/// the user of the device goes on.
extension SimulatedDevice {
  func holdOpen() {
    guard isUp, !isHolding, let life else { return }
    isHolding = true
    world.count("file kept open")
    world.scheduler.perform(life.owner) {
      Task {
        do {
          try await keepOpen(life)
        } catch {
          world.scheduler.note("\(name) keeps open: \(error)")
        }
        if self.life === life { isHolding = false }
      }
    }
  }

  private static let keeper = Caller(user: 0, group: 0)

  private func keepOpen(_ life: DeviceLife) async throws {
    let handle: UInt64
    let number: InodeNumber
    let files = try life.items().filter { $0.inode.kind == .file }
    let isNew = files.isEmpty || ownRandom.chance(50)
    if isNew {
      let (status, open) = try life.fileSystem.create(
        ItemName.simulated("log \(ownRandom.number(0...99))").bytes, in: .root,
        permissions: 0o644, OpenMode(canWrite: true), caller: Self.keeper)
      (handle, number) = (open.handle, status.inode.number)
    } else {
      number = files[ownRandom.number(0...files.count - 1)].inode.number
      handle = try life.fileSystem.open(
        number, OpenMode(canWrite: true), caller: Self.keeper
      ).handle
    }
    world.scheduler.note("\(name) keeps \(number) open")
    defer { if isNew, self.life === life { life.fileSystem.forget(number, count: 1) } }
    // The user may remove it, replace it or write to it meanwhile.
    try await write(handle, number, life, isAlone: false) { file in
      for _ in 0..<self.ownRandom.number(1...4) {
        if self.ownRandom.chance(50) {
          try await self.transact(file, handle, number, life)
        } else {
          try self.extend(file, handle, number, life)
        }
        self.account.ledger.pause(try self.content(of: file))
        try await self.wait(upTo: 150, life)
      }
    }
    let inode = try life.catalog.inode(number)
    if isIntact, !inode.isOrphan, !life.coordinator.isOpenForWriting(number),
      let content = try life.shown(inode)
    {
      account.ledger.acknowledge(content, by: name)
    }
  }

  /// Two writes that belong together, as a database makes them: what is between them is nobody's to
  /// see while the program goes on.
  private func transact(
    _ file: OpenFile, _ handle: UInt64, _ number: InodeNumber, _ life: DeviceLife
  ) async throws {
    life.setLocked(number, true)
    defer { life.setLocked(number, false) }
    try extend(file, handle, number, life)
    let half = try content(of: file)
    try await wait(upTo: 90, life)
    try extend(file, handle, number, life)
    // Of a program that dies in the midst of it the half is what there is.
    guard isIntact else { return }
    account.ledger.setHalfDone(half)
  }

  private func extend(
    _ file: OpenFile, _ handle: UInt64, _ number: InodeNumber, _ life: DeviceLife
  ) throws {
    try supersede(try life.catalog.inode(number), life, alsoConflicts: false)
    let bytes = account.ledger.bytes(count: 16 + ownRandom.number(0...3000))
    try put(bytes[...], at: Int(try file.length()), file, handle, life)
  }

  private func content(of file: OpenFile) throws -> Manifest {
    try account.opened.manifest(of: file, size: try file.length())
  }

  private func wait(upTo seconds: Int, _ life: DeviceLife) async throws {
    try? await Task.sleep(for: .seconds(ownRandom.number(0...seconds)))
    try checkUp(life)
  }
}
