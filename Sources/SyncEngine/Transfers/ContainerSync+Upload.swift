internal import Catalog
internal import ContentStore
internal import Coordination
internal import Glibc
internal import Logging
internal import Model
internal import Platform
internal import RemoteStore
internal import SystemPackage

/// Sends the content of edited files, from a reading claim: never of a file that is being written.
extension ContainerSync {
  /// What one round sends at most before it is committed, so that others get it bit by bit and a
  /// device that stops has little to send again.
  private static let batchBytes: UInt64 = 256 << 20
  private static let batchFiles = 2_000

  /// Gives whether any content was staged, and so whether there is something to commit.
  func upload(_ items: [ItemID], to remote: RemoteContainer) async throws(CycleFailure) -> Bool {
    let uploader = remote.makeUploader()
    var done: [ItemID: StagedContent] = [:]
    var bytes: UInt64 = 0
    for (item, inode) in try local({ () throws(Errno) in try ready(items) }) {
      guard !Task.isCancelled else { throw .cancelled }
      if !done.isEmpty, bytes + inode.size > Self.batchBytes || done.count >= Self.batchFiles {
        break
      }
      transfers.began(inode.number, size: inode.size)
      do throws(RemoteError) {
        if let content = try await upload(inode, with: uploader) {
          done[item] = content
          bytes += inode.size
        }
        transfers.ended(inode.number)
      } catch .file(let errno) {
        // One file that can't be read holds up no other.
        let text = "its content cannot be read here: \(errno)"
        if transfers.upload(inode.number)?.lastError != text {
          logger.error("upload of item \(inode.number): \(text)")
        }
        transfers.ended(inode.number, error: text)
      } catch {
        transfers.ended(inode.number)
        throw .remote(error)
      }
    }
    let locations = try await remotely { () throws(RemoteError) in try await uploader.finish() }
    FaultPoint.reach("sync.uploaded")
    unannounced += locations
    for (item, content) in done { staged[item] = content }
    return !done.isEmpty
  }

  /// The files whose content can go now, small ones first.
  private func ready(_ items: [ItemID]) throws(Errno) -> [(ItemID, Catalog.Inode)] {
    var result: [(ItemID, Catalog.Inode)] = []
    for item in items {
      guard let found = try coordinator.catalog.local(item), found.isEdited,
        !coordinator.isOpenForWriting(found.inode.number), found.inode.content == .local
      else { continue }
      let isPaused =
        found.record.links.first.map { turns.pause($0, at: monotonicNanoseconds()) != nil } ?? false
      if !isPaused { result.append((item, found.inode)) }
    }
    return result.sorted { ($0.1.size, $0.0) < ($1.1.size, $1.0) }
  }

  /// Nil when the file changed while it was read; its next close brings it here again.
  private func upload(_ inode: Catalog.Inode, with uploader: ContentUploader)
    async throws(RemoteError)
    -> StagedContent?
  {
    let coordinator = coordinator
    let number = inode.number
    coordinator.opened(number, forWriting: false)
    defer {
      coordinator.closed(number, forWriting: false)
      coordinator.reclaim(number)
    }
    let key = ContentKey(item: inode.item, generation: inode.generation)
    let manifest: Manifest
    if inode.size == 0 {
      manifest = .empty
    } else {
      let file: OpenFile
      do throws(Errno) {
        guard try !coordinator.content.hasWriter(key) else { return nil }
        file = try coordinator.content.open(key, writable: false)
      } catch .noSuchFileOrDirectory where !isStill(inode) {
        // Removed or replaced before it was opened here.
        return nil
      } catch {
        throw .file(error)
      }
      let known = unannounced
      let catalog = coordinator.catalog
      let board = transfers
      do throws(RemoteError) {
        manifest = try await uploader.add(
          file: file, size: inode.size,
          isKnown: { ids in
            let found = Set(try catalog.chunkLocations(ids).keys)
            return found.union(known.lazy.map(\.chunk.id))
          },
          progress: { board.progressed(number, to: $0) })
      } catch .changedWhileReading {
        return nil
      }
      // The row is to say that this file is the version that is sent: after a power cut it has to be.
      do throws(Errno) { try coordinator.content.synchronize(key, file) } catch {
        throw .file(error)
      }
      FaultPoint.reach("sync.content-durable")
    }
    guard !coordinator.isOpenForWriting(number), let now = try? coordinator.catalog.inode(number),
      now.version == nil, now.generation == inode.generation, now.size == inode.size,
      now.modified == inode.modified, now.changed == inode.changed, now.size == manifest.size
    else { return nil }
    let version = staged[inode.item].flatMap { $0.isStill(now) ? $0.version : nil } ?? .random()
    return StagedContent(version: version, inode: now, manifest: manifest)
  }

  /// Whether the catalog still has the file with this content.
  private func isStill(_ inode: Catalog.Inode) -> Bool {
    guard let now = try? coordinator.catalog.inode(inode.number) else { return false }
    return now.generation == inode.generation && !now.isOrphan
  }
}
