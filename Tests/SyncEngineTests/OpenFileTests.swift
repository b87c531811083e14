import Backend
import Catalog
import Coordination
import Foundation
import Model
import Platform
import RemoteStore
import SystemPackage
import TestWaiting
import Testing

@testable import SyncEngine

/// Files that programs keep open for writing.
@Suite(.serialized) struct OpenFileTests {
  private func withDevices(
    quiet: Duration?, _ body: (EngineDevice, EngineDevice) async throws -> Void
  ) async throws {
    let store = MemoryStore()
    let secret = AccountSecret.generate()
    var settings = SyncSettings()
    settings.snapshotQuiet = quiet
    let first = try EngineDevice(store: store, secret: secret, settings: settings)
    let second = try EngineDevice(store: store, secret: secret)
    first.coordinator.setLockReader { FileLocks() }
    let result: Result<Void, any Error>
    do {
      await first.sync.start()
      await second.sync.start()
      try await first.sync.sync(timeout: .seconds(240))
      result = .success(try await body(first, second))
    } catch {
      result = .failure(error)
    }
    await first.end()
    await second.end()
    try result.get()
  }

  @Test("the name of a new file is elsewhere while a program still writes to it")
  func aNameGoesAtOnce() async throws {
    try await withDevices(quiet: nil) { first, second in
      let empty = try HeldFile("Documents/empty", first)
      try await eventually("its name is there") { try second.find("Documents/empty") != nil }
      #expect(try second.find("Documents/empty")?.size == 0)
      empty.close()

      let file = try HeldFile("Documents/log", first)
      try file.append(1_000)
      try await eventually("its name is there") { try second.find("Documents/log") != nil }
      let inode = try #require(try second.find("Documents/log"))
      #expect(try second.catalog.shownContent(of: inode.number)?.manifest == nil)
      try file.append(1_000)
      file.close()
      try await first.sync.sync(timeout: .seconds(240))
      try await second.sync.sync(timeout: .seconds(240))
      #expect(try await second.read("Documents/log").count == 2_000)
    }
  }

  @Test("a file that stays open is uploaded when nothing has written to it for a while")
  func aQuietFileIsUploaded() async throws {
    try await withDevices(quiet: .milliseconds(300)) { first, second in
      let file = try HeldFile("Documents/log", first)
      func isThere(_ size: UInt64) async throws -> Bool {
        guard let inode = try second.find("Documents/log"), inode.size == size,
          try second.catalog.shownContent(of: inode.number)?.manifest != nil
        else { return false }
        return try await second.read("Documents/log") == file.bytes
      }
      try file.append(1_000)
      try await eventually("its content is there") { try await isThere(1_000) }
      try file.append(2_000_000)
      try await eventually("what was written since is there") { try await isThere(2_001_000) }
      // All that was written is in the backend.
      try await first.sync.sync(timeout: .seconds(240))
      let version = try #require(try second.find("Documents/log")).version
      file.close()
      try await first.sync.sync(timeout: .seconds(240))
      try await second.sync.sync(timeout: .seconds(240))
      #expect(try first.catalog.differing() == [])
      #expect(try first.find("Documents/log")?.version != nil)
      #expect(try second.find("Documents/log")?.version == version || version == nil)
    }
  }

  @Test("an open file stays on the device while a lock concerns it", arguments: [true, false])
  func aLockedFileIsLeft(ofItsOwn: Bool) async throws {
    try await withDevices(quiet: .milliseconds(100)) { first, second in
      // Its number is known when it is made, and its name must not go before its lock is.
      first.offline.set(offline: true)
      let file = try HeldFile("Documents/database-wal", first)
      let inodes: Set<UInt64> = ofItsOwn ? [file.number.rawValue] : [999_999]
      // This process has the file open.
      first.coordinator.setLockReader { FileLocks(inodes: inodes, processes: [getpid()]) }
      first.offline.set(offline: false)
      try file.append(1_000)
      await #expect(throws: SyncFailure.self) {
        try await first.sync.sync(timeout: .milliseconds(700))
      }
      try await second.sync.sync(timeout: .seconds(240))
      #expect(try second.find("Documents/database-wal") == nil)
      first.coordinator.setLockReader { FileLocks() }
      try await first.sync.sync(timeout: .seconds(240))
      try await second.sync.sync(timeout: .seconds(240))
      #expect(try await second.read("Documents/database-wal") == file.bytes)
      file.close()
    }
  }

  @Test("an open file stays on the device while somebody claims it")
  func aClaimedFileIsLeft() async throws {
    try await withDevices(quiet: .milliseconds(100)) { first, second in
      let file = try HeldFile("Documents/log", first)
      try file.append(1_000)
      let claims = first.coordinator.claims
      let program = ClaimantID(claims.join(name: "a program"))
      let place = try #require(try first.coordinator.claimed(file.number))
      let isGranted = Lock(false)
      _ = claims.claim([ClaimAccess(place.path, .writing([]))], by: program) { _, result in
        if case .success = result { isGranted.withLock { $0 = true } }
      }
      try await eventually("it has its turn") { isGranted.withLock { $0 } }
      await #expect(throws: SyncFailure.self) {
        try await first.sync.sync(timeout: .milliseconds(700))
      }
      try await second.sync.sync(timeout: .seconds(240))
      if let inode = try second.find("Documents/log") {
        #expect(try second.catalog.shownContent(of: inode.number)?.manifest == nil)
      }
      // A claim that comes after the plan keeps the file back as well.
      let engine = EngineClaims(claims, name: "a test")
      let quiet = QuietFiles(
        coordinator: first.coordinator, claims: engine, quiet: .milliseconds(100))
      let inode = try first.catalog.inode(file.number)
      #expect(try !quiet.allows(inode) && quiet.snapshot(of: inode) == nil)
      claims.leave(program.party)
      try await eventually("it may go") { quiet.allows(try first.catalog.inode(file.number)) }
      claims.leave(engine.party)
      try await first.sync.sync(timeout: .seconds(240))
      try await second.sync.sync(timeout: .seconds(240))
      #expect(try await second.read("Documents/log") == file.bytes)
      file.close()
    }
  }

  @Test("another device's edit after a snapshot replaces the file when it is closed unchanged")
  func anEditElsewhereAfterASnapshotIsNoConflict() async throws {
    try await withDevices(quiet: .milliseconds(200)) { first, second in
      let file = try HeldFile("Documents/log", first)
      try file.append(1_000)
      try await first.sync.sync(timeout: .seconds(240))
      try await second.sync.sync(timeout: .seconds(240))
      _ = try await second.read("Documents/log")
      try second.write("Documents/log", Array(repeating: 7, count: 50))
      try await second.sync.sync(timeout: .seconds(240))
      file.close()
      try await first.sync.sync(timeout: .seconds(240))
      try await second.sync.sync(timeout: .seconds(240))
      #expect(try await first.read("Documents/log") == Array(repeating: 7, count: 50))
      #expect(await first.sync.status().conflicts == 0)
    }
  }

  @Test("a sync that times out names the open file and its program")
  func aLateSyncNamesTheFile() async throws {
    try await withDevices(quiet: nil) { first, _ in
      let file = try HeldFile("Documents/log", first)
      try file.append(10)
      do {
        try await first.sync.sync(timeout: .milliseconds(200))
        Issue.record("it did not time out")
      } catch SyncFailure.timedOut(let text) {
        #expect(text.contains("Documents/log"))
        #expect(text.contains("process \(getpid())"))
      }
      let waits = await first.sync.status().openFiles
      #expect(waits.map(\.path) == ["Documents/log"])
      #expect(waits.first?.programs.map(\.process) == [getpid()])
      file.close()
    }
  }
}

/// A new file that a program keeps open.
final class HeldFile {
  let number: InodeNumber
  private(set) var bytes: [UInt8] = []
  private let device: EngineDevice
  private var file: OpenFile?

  init(_ path: String, _ device: EngineDevice) throws {
    self.device = device
    let parts = path.split(separator: "/").map(String.init)
    let above = try device.find(parts.dropLast().joined(separator: "/"))
    let inode = try device.catalog.create(
      ItemName(parts[parts.count - 1]), in: above?.number ?? .root,
      NewItem(kind: .file, mode: 0o644, owner: 0, group: 0)
    ) { device.coordinator.opened($0, forWriting: true, by: getpid()) }
    number = inode.number
    let key = ContentKey(item: inode.item, generation: inode.generation)
    file = try device.content.open(key, writable: true, create: true)
  }

  func append(_ count: Int) throws {
    try append(bytes: (0..<count).map { _ in UInt8.random(in: 0...255) })
  }

  func append(bytes more: [UInt8]) throws {
    try file?.write(more, at: UInt64(bytes.count))
    bytes += more
    try device.catalog.noteContentChange(
      number, size: UInt64(bytes.count),
      modified: Timestamp(nanoseconds: SystemClock().nanoseconds()))
  }

  func truncate() throws {
    try file?.truncate(to: 0)
    bytes = []
    try device.catalog.noteContentChange(
      number, size: 0, modified: Timestamp(nanoseconds: SystemClock().nanoseconds()))
  }

  func close() {
    file = nil
    device.coordinator.closed(number, forWriting: true, by: getpid())
  }
}
