import Backend
import Catalog
import Coordination
import Foundation
import Glibc
import Model
import Platform
import RemoteStore
import SyncEngine
import TestWaiting
import Testing

/// The upload of a snapshot of a file that a program keeps open.
@Suite(.serialized) struct OpenFileUploadTests {
  enum Change: CaseIterable { case truncated, removed }

  @Test(
    "an open file whose snapshot is being uploaded stops uploading when it is truncated or removed",
    arguments: Change.allCases)
  func aSnapshotOfAChangedFileIsGivenUp(change: Change) async throws {
    let store = PackGate(MemoryStore())
    var settings = SyncSettings()
    settings.snapshotQuiet = .milliseconds(100)
    let device = try EngineDevice(store: store, secret: .generate(), settings: settings)
    device.coordinator.setLockReader { FileLocks() }
    let result: Result<Void, any Error>
    do {
      await device.sync.start()
      try await device.sync.sync(timeout: .seconds(240))
      store.hold()
      let file = try HeldFile("Documents/log", device)
      // More than the packs that are on their way and in memory: the copy is still being read.
      try file.append(bytes: incompressible(64 << 20))
      try await eventually("its snapshot is sent") {
        try store.heldOthers + store.heldAwaited > 0 && device.openWithoutName() == 1
      }
      // A program that goes on to lock the file keeps the next snapshot from being taken.
      let number = file.number.rawValue
      device.coordinator.setLockReader {
        FileLocks(inodes: [number], processes: [getpid()])
      }
      switch change {
      case .truncated: try file.truncate()
      case .removed: try device.remove("Documents/log")
      }
      try await eventually("the snapshot's blocks are free") { try device.openWithoutName() == 0 }
      try await eventually("nothing is sent") { store.heldOthers + store.heldAwaited == 0 }
      file.close()
      result = .success(())
    } catch {
      result = .failure(error)
    }
    store.letGo()
    await device.end()
    try result.get()
  }
}
