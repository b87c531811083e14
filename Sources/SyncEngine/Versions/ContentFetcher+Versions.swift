package import Catalog
package import Coordination
package import Model
package import Platform
internal import RemoteStore
internal import SystemPackage

/// Contents that a file has beside the one that its inode shows.
extension ContentFetcher: VersionFetching {
  package func fetch(
    _ version: VersionID, of number: InodeNumber, into file: OpenFile, cause: DownloadCause,
    completion: @escaping @Sendable (Result<Void, FetchFailure>) -> Void
  ) -> any FetchTicket {
    let task = Task {
      let result: Result<Void, FetchFailure>
      do throws(FetchFailure) {
        try await self.bring(version, of: number, into: file, cause)
        result = .success(())
      } catch {
        result = .failure(error)
      }
      completion(result)
    }
    return VersionTicket(task: task)
  }

  private struct VersionTicket: FetchTicket {
    let task: Task<Void, Never>

    func cancel() { task.cancel() }
  }

  /// How many chunks are asked for, and held in memory, at a time.
  private static let chunksAtATime = 4

  private func bring(
    _ version: VersionID, of number: InodeNumber, into file: OpenFile, _ cause: DownloadCause
  ) async throws(FetchFailure) {
    var rest = try await manifest(of: version, number).chunks[...]
    var offset: UInt64 = 0
    while !rest.isEmpty {
      try checkIsWanted()
      let batch = Array(rest.prefix(Self.chunksAtATime))
      rest = rest.dropFirst(batch.count)
      for bytes in try await chunks(batch) {
        do throws(Errno) {
          try bytes.withUnsafeBytes { bytes throws(Errno) in
            try file.fillHole(bytes, at: offset)
          }
        } catch {
          throw error == .noSpace ? FetchFailure.noSpace : FetchFailure.system(error)
        }
        offset += UInt64(bytes.count)
        coordinator.noteFetched(UInt64(bytes.count), of: number, for: cause)
      }
    }
    // Zeros at the end were left out.
    do throws(Errno) { try file.truncate(to: offset) } catch { throw .system(error) }
  }

  private func checkIsWanted() throws(FetchFailure) {
    guard !Task.isCancelled else { throw .cancelled }
    guard !state.withLock({ $0.isStopped }) else { throw .offline }
  }

  /// Waits for a version that its device has made known and not sent yet.
  private func manifest(of version: VersionID, _ number: InodeNumber)
    async throws(FetchFailure) -> Manifest
  {
    let deadline = monotonicNanoseconds() + pendingLimit
    while true {
      try checkIsWanted()
      let found: ContentVersion?
      do throws(Errno) {
        let inode = try coordinator.catalog.inode(number)
        let record = try coordinator.catalog.remote(inode.item)
        found = record?.contents.first { $0.id == version }
      } catch {
        throw FetchFailure.system(error)
      }
      // Somebody has resolved the conflict meanwhile.
      guard let found else { throw FetchFailure.system(.staleNFSFileHandle) }
      if let manifest = found.manifest { return manifest }
      if let obstacle = remote.obstacle { throw obstacle }
      guard monotonicNanoseconds() < deadline else { throw FetchFailure.unsent(unsentError) }
      try? await Task.sleep(for: .milliseconds(100))
    }
  }
}
