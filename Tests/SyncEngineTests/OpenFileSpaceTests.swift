import Backend
import Coordination
import Foundation
import Glibc
import Model
import Platform
import RemoteStore
import TestWaiting
import Testing

@testable import SyncEngine

/// Snapshots of open files on a disk that has little room, and their end before the copy is whole.
@Suite(.serialized) struct OpenFileSpaceTests {
  private func withDevice(
    _ disk: TestDisk, _ body: (EngineDevice) async throws -> Void
  ) async throws {
    var settings = SyncSettings()
    settings.snapshotQuiet = .milliseconds(100)
    let device = try EngineDevice(
      store: MemoryStore(), secret: .generate(), settings: settings, disk: { disk.look() })
    device.coordinator.setLockReader { FileLocks() }
    let result: Result<Void, any Error>
    do {
      await device.sync.start()
      try await device.sync.sync(timeout: .seconds(240))
      result = .success(try await body(device))
    } catch {
      result = .failure(error)
    }
    disk.gate.open()
    await device.end()
    try result.get()
  }

  @Test("without room on the disk an open file is not copied, and status says so")
  func aCopyWithoutRoomIsNotMade() async throws {
    let disk = TestDisk(free: 100 << 20)
    try await withDevice(disk) { device in
      let start = ContinuousClock.now
      let file = try HeldFile("Documents/log", device)
      try file.append(1_000_000)
      let reason = "the local disk has no space for a copy of the open file"
      func isReported() async -> Bool {
        await device.sync.status().openFiles.contains {
          $0.path == "Documents/log" && $0.reason?.hasPrefix(reason) == true
        }
      }
      try await eventually("status says why the file waits") { await isReported() }
      let error = device.sync.transfer(of: file.number).uploadingError
      #expect(error?.contains("close it, or free ") == true)
      try await eventually("the upload ends") { !device.sync.uploads.isBusy }
      let looks = disk.looks
      for _ in 0..<5 { _ = await device.sync.runCycle(freshly: true) }
      // The next copy may be tried after a minute.
      if ContinuousClock.now - start < .seconds(60) { #expect(disk.looks == looks) }
      #expect(await isReported())
      #expect(try device.openWithoutName() == 0)

      disk.setFree(4 << 30)
      // The pause is over.
      device.sync.uploads.state.withLock { $0.withoutRoom = [:] }
      try await device.sync.sync(timeout: .seconds(240))
      #expect(disk.looks > looks)
      #expect(await device.sync.status().openFiles == [])
      #expect(device.sync.transfer(of: file.number).uploadingError == nil)
      file.close()
    }
  }

  @Test("an open file that waits for room is uploaded when it is closed")
  func aCloseNeedsNoRoom() async throws {
    let disk = TestDisk(free: 100 << 20)
    try await withDevice(disk) { device in
      let file = try HeldFile("Documents/log", device)
      try file.append(1_000)
      try await eventually("status says why the file waits") {
        await device.sync.status().openFiles.contains { $0.reason != nil }
      }
      file.close()
      #expect(await device.sync.status().openFiles == [])
      try await device.sync.sync(timeout: .seconds(240))
      #expect(try device.find("Documents/log")?.version != nil)
    }
  }

  @Test("removing an open file ends the copy of it that is being made")
  func aCancelledCopyEnds() async throws {
    let disk = TestDisk(free: 4 << 30)
    try await withDevice(disk) { device in
      disk.gate.close()
      let file = try HeldFile("Documents/log", device)
      // Longer than what is copied between two looks at the disk.
      try file.append(bytes: Array(repeating: 1, count: 80 << 20))
      try await eventually("a copy is being made") { disk.looks == 1 }
      #expect(try device.openWithoutName() == 1)
      try device.remove("Documents/log")
      try await eventually("its upload is cancelled") {
        device.sync.uploads.state.withLock { state in
          state.runs.values.allSatisfy { $0.task?.isCancelled ?? false }
        }
      }
      disk.gate.open()
      try await eventually("its upload ends") { !device.sync.uploads.isBusy }
      try await eventually("its blocks are free") { try device.openWithoutName() == 0 }
      #expect(disk.looks == 1)
      file.close()
    }
  }
}

/// A disk of 8 GiB as a test wants it. Looks at it wait at the gate.
private final class TestDisk: Sendable {
  private struct State {
    var free: UInt64
    var looks = 0
  }

  let gate = Gate(open: true)
  private let state: Lock<State>

  init(free: UInt64) { state = Lock(State(free: free)) }

  var looks: Int { state.withLock { $0.looks } }

  func setFree(_ bytes: UInt64) { state.withLock { $0.free = bytes } }

  func look() -> DiskStatistics? {
    state.withLock { $0.looks += 1 }
    gate.wait()
    guard var disk = try? DiskStatistics.of("/") else { return nil }
    disk.blockSize = 4096
    disk.blocks = (8 << 30) / 4096
    disk.blocksAvailable = state.withLock { $0.free } / 4096
    return disk
  }
}
