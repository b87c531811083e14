import Backend
import Model
import RemoteStore
import SyncEngine
import SystemPackage
import Testing

/// Programs change the tree while the engine looks at it.
@Suite(.serialized) struct BusyTreeTests {
  /// A file that is saved by renaming is there at every moment, whatever the engine saw of the old
  /// one and of the new one.
  @Test func aReplacedFileKeepsItsName() async throws {
    let device = try EngineDevice(store: MemoryStore(), secret: .generate())
    for number in 0..<100 { try device.write("Documents/other \(number)", [1]) }
    try device.write("Documents/file", [0])
    await device.sync.start()
    try await device.sync.sync()
    let syncing = Task {
      while !Task.isCancelled { try? await device.sync.sync(timeout: .milliseconds(1)) }
    }
    for round in 0..<100 {
      try device.write("Documents/file.new", [UInt8(truncatingIfNeeded: round)])
      // Enough to look at for a rename to fall between two looks.
      for number in 0..<20 { try device.write("Documents/other \(number)", [2]) }
      try device.rename("Documents/file.new", "Documents/file")
      if try device.find("Documents/file 2") != nil {
        Issue.record("the file lost its name in round \(round)")
        break
      }
    }
    syncing.cancel()
    await syncing.value
    try await device.sync.sync()
    #expect(try device.find("Documents/file") != nil)
    #expect(try device.find("Documents/file 2") == nil)
    #expect(try device.find("Documents/file.new") == nil)
    await device.end()
  }

  /// A tree that is removed while the engine looks is to it there or gone, never a directory that
  /// is gone with something still in it.
  @Test func aTreeIsRemovedAtOnce() async throws {
    // It is all that there is, and nobody is there to be asked.
    let device = try EngineDevice(
      store: MemoryStore(), secret: .generate(),
      settings: SyncSettings(deletions: DeletionGuard(share: 1)))
    await device.sync.start()
    for round in 0..<15 {
      try device.makeDirectory("Documents/tree")
      for number in 0..<10 {
        try device.makeDirectory("Documents/tree/\(number)")
        for file in 0..<20 { try device.write("Documents/tree/\(number)/\(file)", [1]) }
      }
      try await device.sync.sync()
      let syncing = Task {
        while !Task.isCancelled { try await device.sync.sync() }
      }
      for number in 0..<10 {
        for file in 0..<20 { try device.remove("Documents/tree/\(number)/\(file)") }
        try device.remove("Documents/tree/\(number)", directory: true)
      }
      try device.remove("Documents/tree", directory: true)
      syncing.cancel()
      do { try await syncing.value } catch is CancellationError {
      } catch {
        Issue.record("round \(round): \(error)")
        break
      }
      try await device.sync.sync()
      #expect(try device.find("Documents/tree") == nil)
    }
    await device.end()
  }

  /// A file is in the log with what it held when it was closed, never as it was in between: empty.
  @Test func aNewFileIsNeverEmptyElsewhere() async throws {
    let store = MemoryStore()
    let secret = AccountSecret.generate()
    let device = try EngineDevice(store: store, secret: secret)
    await device.sync.start()
    try await device.sync.sync()
    let syncing = Task {
      while !Task.isCancelled { try? await device.sync.sync(timeout: .milliseconds(1)) }
    }
    for number in 0..<3_000 { try device.write("Documents/\(number)", [1, 2, 3]) }
    syncing.cancel()
    await syncing.value
    try await device.sync.sync()
    let account = try await RemoteAccount.open(
      store: store, secret: secret, createIfMissing: false)
    let log = try await account.createContainer(
      EngineDevice.container, device: device.id, time: Timestamp(nanoseconds: 1))
    var position = LogPosition.start
    var files = 0
    while true {
      let segments = try await log.segments(after: position)
      guard let last = segments.last else { break }
      position = last.position
      for record in segments.flatMap(\.changes.upserts) where record.kind == .file {
        files += 1
        #expect(record.content?.size == 3)
      }
    }
    #expect(files >= 3_000)
    await device.end()
  }
}
