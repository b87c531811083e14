package import Platform
package import SystemPackage

/// Why there is no copy of a content.
package enum CopyFailure: Error, Hashable, Sendable {
  /// The disk lacks so many bytes.
  case noRoom(missing: UInt64)
  case cancelled
  case system(Errno)
}

/// Copies that nobody waits for: they leave room on the disk, and can be cancelled.
extension ContentFiles {
  /// The most that is copied between two looks at `isCancelled`.
  private static let piece: UInt64 = 16 << 20
  /// The most that is copied between two looks at the disk: another program may fill it meanwhile.
  private static let diskLook: UInt64 = 64 << 20

  /// A copy of the whole of `input` without a name, holes kept. It goes with its descriptor.
  ///
  /// The copy shares the blocks of `input` where the file system can. Else it is made only while
  /// all that is left to copy fits on the disk and leaves `reserve` free. A copy that is given up
  /// leaves nothing. Blocks.
  package func unnamedCopy(
    of input: OpenFile, leaving reserve: (DiskStatistics) -> UInt64, isCancelled: () -> Bool
  ) throws(CopyFailure) -> OpenFile {
    let failure: CopyFailure
    do throws(Errno) {
      let output = try unnamed()
      guard let reason = try fill(output, from: input, reserve, isCancelled) else { return output }
      failure = reason
    } catch .noSpace {
      failure = .noRoom(missing: lackingBytes(forCopyOf: input, reserve))
    } catch .diskQuotaExceeded {
      failure = .noRoom(missing: lackingBytes(forCopyOf: input, reserve))
    } catch {
      failure = .system(error)
    }
    throw failure
  }

  /// Gives why it stopped; nil: all is copied.
  private func fill(
    _ output: OpenFile, from input: OpenFile, _ reserve: (DiskStatistics) -> UInt64,
    _ isCancelled: () -> Bool
  ) throws(Errno) -> CopyFailure? {
    if isCancelled() { return .cancelled }
    if clones, (try? input.clone(to: output)) != nil { return nil }
    // Holes take no room, and reserved space becomes a hole.
    var left = try input.dataBytes()
    var sinceLook = Self.diskLook
    var failure: CopyFailure?
    try Self.copy(input, to: output, piece: Self.piece) { length in
      if isCancelled() {
        failure = .cancelled
      } else if sinceLook >= Self.diskLook {
        failure = lackingBytes(for: left, reserve).map { .noRoom(missing: $0) }
        sinceLook = 0
      }
      left -= min(left, length)
      sinceLook += length
      return failure == nil
    }
    return failure
  }

  /// How many bytes the disk lacks for so many more; nil if it has them, or cannot be asked.
  private func lackingBytes(
    for bytes: UInt64, _ reserve: (DiskStatistics) -> UInt64
  ) -> UInt64? {
    guard let disk = disk() else { return nil }
    let wanted = bytes &+ reserve(disk)
    let free = disk.blocksAvailable &* disk.blockSize
    return free < wanted ? wanted - free : nil
  }

  /// The same after the system refused a write: a quota does not show in what is free.
  private func lackingBytes(
    forCopyOf input: OpenFile, _ reserve: (DiskStatistics) -> UInt64
  ) -> UInt64 {
    let bytes = (try? input.dataBytes()) ?? 0
    return lackingBytes(for: bytes, reserve) ?? bytes
  }
}
