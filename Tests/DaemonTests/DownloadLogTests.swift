import ControlProtocol
import Coordination
import Daemon
import Foundation
import Glibc
import Model
import Platform
import TestWaiting
import Testing

/// What is kept of who caused which download.
@Suite struct DownloadLogTests {
  private func reason(_ kind: DownloadCause.Kind, isDenied: Bool = false, item: UInt8 = 1) throws
    -> DownloadLog.Reason
  {
    let requester = Requester(process: 7, name: "grep", executable: Array("/usr/bin/grep".utf8))
    return DownloadLog.Reason(
      container: try ContainerID("iCloud.a.b"),
      item: try #require(ItemID(bytes: [UInt8](repeating: item, count: 16))),
      cause: DownloadCause(kind, by: requester, rule: isDenied ? "rule 1: executable grep" : nil),
      isDenied: isDenied)
  }

  private func lines(_ path: String) throws -> [DownloadReport] {
    try Files.read(path).split(separator: 0x0A).map {
      try JSONDecoder().decode(DownloadReport.self, from: Data($0))
    }
  }

  @Test func whatComesForOneReasonIsALine() throws {
    let scratch = try Scratch()
    let path = scratch.path + "/downloads.log"
    let log = DownloadLog(path: path)
    for _ in 0..<3 { log.note(try reason(.read), bytes: 100) { PathBytes("/m/file") } }
    log.note(try reason(.read, isDenied: true, item: 2), bytes: 0) { PathBytes("/m/o\nther") }
    log.write()
    log.write()
    let found = try lines(path).sorted { $0.result.rawValue > $1.result.rawValue }
    #expect(found.count == 2)
    #expect(found[0].bytes == 300 && found[0].count == 3 && found[0].result == .fetched)
    #expect(found[0].path == PathBytes("/m/file") && found[0].container == "iCloud.a.b")
    #expect(found[0].process == 7 && found[0].command == "grep")
    #expect(found[0].executable == PathBytes("/usr/bin/grep") && found[0].rule == nil)
    #expect(found[1].result == .denied && found[1].bytes == 0)
    #expect(found[1].rule == "rule 1: executable grep" && found[1].path == PathBytes("/m/o\nther"))
  }

  @Test func itIsWrittenByItselfWhenNothingComesAnyMore() async throws {
    let scratch = try Scratch()
    let path = scratch.path + "/downloads.log"
    let log = DownloadLog(path: path)
    for round in 1...2 {
      log.note(try reason(.pin), bytes: 1) { PathBytes("/m/file") }
      try await eventually("the log has \(round) lines") {
        ((try? lines(path)) ?? []).count >= round
      }
    }
  }

  @Test func itIsWrittenWhileMoreComes() async throws {
    let scratch = try Scratch()
    let path = scratch.path + "/downloads.log"
    let log = DownloadLog(path: path)
    let deadline = Deadline("the log has 2000 lines")
    try await withThrowingTaskGroup { group in
      for thread in 0..<3 as Range<UInt8> {
        group.addTask {
          var number = 0
          while ((try? self.lines(path)) ?? []).count < 2000, !Task.isCancelled {
            try deadline.check()
            for _ in 0..<50 {
              let item = UInt8(truncatingIfNeeded: number)
              log.note(try self.reason(.read, item: item &* 3 &+ thread), bytes: 1) {
                PathBytes("/m/file")
              }
              number += 1
            }
            if number % 2000 == 0 { log.write() }
            await Task.yield()
          }
        }
      }
      try await group.waitForAll()
    }
  }

  @Test("noting thousands of reasons does not wait for the disk")
  func notingDoesNotWait() async throws {
    let scratch = try Scratch()
    let path = scratch.path + "/downloads.log"
    // Opening it for writing waits until somebody reads.
    #expect(mkfifo(path, 0o600) == 0)
    let log = DownloadLog(path: path)
    let isDone = Lock(false)
    _ = startThread {
      for number in 0..<40_000 {
        var bytes = [UInt8](repeating: 0, count: 16)
        withUnsafeBytes(of: UInt64(number)) { bytes.replaceSubrange(0..<8, with: $0) }
        guard let container = try? ContainerID("iCloud.a.b"), let item = ItemID(bytes: bytes) else {
          return
        }
        let reason = DownloadLog.Reason(
          container: container, item: item, cause: DownloadCause(.read), isDenied: false)
        log.note(reason, bytes: 1) { PathBytes("/m/file") }
      }
      isDone.withLock { $0 = true }
    }
    try await eventually("all reasons are noted") { isDone.withLock { $0 } }
    // Lets the writers go: what they write is read and forgotten until the log closes its file.
    _ = startThread {
      let reader = open(path, O_RDONLY)
      var buffer = [UInt8](repeating: 0, count: 1 << 16)
      while read(reader, &buffer, buffer.count) > 0 {}
      close(reader)
    }
  }

  @Test func itGoesOnWhereItStoppedAndStaysSmall() throws {
    let scratch = try Scratch()
    let path = scratch.path + "/downloads.log"
    for number in 1...200 {
      // Each as after a new start.
      let log = DownloadLog(path: path, limit: 4096)
      log.note(try reason(.read), bytes: UInt64(number)) { PathBytes("/m/file") }
      log.write()
    }
    let kept = try lines(path + ".1") + ((try? lines(path)) ?? [])
    #expect(kept.map(\.bytes) == Array(UInt64(201 - kept.count)...200))
    let size = try Files.read(path + ".1").count
    #expect(size > 4096 && size < 4096 + 1024)
  }
}
