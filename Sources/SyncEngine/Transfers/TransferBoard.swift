internal import Catalog
internal import Coordination
internal import Model
internal import Platform

/// What is being uploaded, for `status`. The lock is a leaf.
final class TransferBoard: Sendable {
  struct Upload {
    var isActive = false
    var done: UInt64 = 0
    var size: UInt64 = 0
    var error: String?
    /// Of an earlier try, while the next one runs.
    var lastError: String?
  }

  private struct Beyond {
    var files: [InodeNumber: UInt64] = [:]
    var limit: UInt64 = 0
  }

  private let beyond = Lock(Beyond())
  /// Open files of which the disk has no room for a copy, and how many bytes it lacks.
  private let withoutRoom = Lock<[InodeNumber: UInt64]>([:])
  private let stop = Lock<String?>(nil)
  private let uploads = Lock<[InodeNumber: Upload]>([:])

  /// Nothing is sent, and why; nil: it goes on.
  func stopped(by error: String?) { stop.withLock { $0 = error } }

  var stoppedBy: String? { stop.withLock { $0 } }

  /// Files that the account has no room for, with their sizes.
  func setBeyondQuota(_ files: [InodeNumber: UInt64], limit: UInt64) {
    beyond.withLock { $0 = Beyond(files: files, limit: limit) }
  }

  /// Why this one is not sent, if it is for want of room.
  func quotaError(_ number: InodeNumber) -> String? {
    beyond.withLock { $0.files[number] == nil ? nil : Allotment.text(limit: $0.limit) }
  }

  var waitingForRoom: (files: Int, bytes: UInt64) {
    beyond.withLock { ($0.files.count, $0.files.values.reduce(0, &+)) }
  }

  /// One line for all of them.
  var quotaLine: String? {
    let (files, bytes) = waitingForRoom
    guard files > 0 else { return nil }
    return Allotment.text(limit: beyond.withLock { $0.limit }, files: files, bytes: bytes)
  }

  // MARK: Open files of which the disk has no room for a copy

  /// The disk lacks so many bytes. Gives whether it is new.
  func noteWithoutRoom(_ number: InodeNumber, missing: UInt64) -> Bool {
    withoutRoom.withLock { $0.updateValue(missing, forKey: number) == nil }
  }

  func forgetWithoutRoom(_ number: InodeNumber) { withoutRoom.withLock { $0[number] = nil } }

  func forgetWithoutRoom(except numbers: Set<InodeNumber>) {
    withoutRoom.withLock { files in files = files.filter { numbers.contains($0.key) } }
  }

  /// Why there is no snapshot of this open file, if it is for want of room on the disk.
  func diskError(_ number: InodeNumber) -> String? {
    withoutRoom.withLock { $0[number] }.map { Self.withoutRoomText(missing: $0) }
  }

  static func withoutRoomText(missing: UInt64) -> String {
    "the local disk has no space for a copy of the open file; close it, or free \(missing) bytes"
  }

  func began(_ number: InodeNumber, size: UInt64) {
    uploads.withLock { uploads in
      let last = uploads[number].flatMap { $0.error ?? $0.lastError }
      uploads[number] = Upload(isActive: true, size: size, lastError: last)
    }
  }

  func progressed(_ number: InodeNumber, to done: UInt64) {
    uploads.withLock { $0[number]?.done = done }
  }

  func ended(_ number: InodeNumber, error: String? = nil) {
    uploads.withLock { uploads in
      uploads[number] = error.map { Upload(error: $0) }
    }
  }

  /// What failed and is not to be tried again is told no more.
  func forgetErrors(except numbers: Set<InodeNumber>) {
    uploads.withLock { uploads in
      uploads = uploads.filter { $0.value.error == nil || numbers.contains($0.key) }
    }
  }

  func upload(_ number: InodeNumber) -> Upload? { uploads.withLock { $0[number] } }

  /// Those that are under way.
  func running() -> [Transfer] {
    uploads.withLock { uploads in
      uploads.filter(\.value.isActive).map { number, upload in
        Transfer(number: number, isUpload: true, done: upload.done, total: upload.size)
      }
    }
  }

  func errors() -> [String] {
    uploads.withLock { uploads in
      uploads.compactMap { number, upload in upload.error.map { "item \(number): \($0)" } }.sorted()
    }
  }
}
