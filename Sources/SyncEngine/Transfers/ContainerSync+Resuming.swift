internal import Catalog
internal import Model
internal import SystemPackage

/// Uploads that go on after this device stopped: chunks that are in the backend and in no segment.
extension ContainerSync {
  /// Packs that the log does not name are removed from the backend some day, and not before this.
  /// Less than `CompactionPolicy.strayAge`.
  private static let sentLasts = 23 * CompactionPolicy.day

  /// What went up before this device stopped and was not announced.
  func resumeUploads() throws(CycleFailure) {
    guard !hasResumed else { return }
    let catalog = coordinator.catalog
    let sent = try local { () throws(Errno) in
      try catalog.sentChunks(since: catalog.now.advanced(by: -Self.sentLasts))
    }
    unannounced += sent
    try awaitContent(of: sent)
    hasResumed = true
  }

  /// Chunks of contents that changed again before they were committed: garbage, not ours to tell.
  func forgetUnannounced() throws(CycleFailure) {
    guard !unannounced.isEmpty || !condemnedPlaces.isEmpty else { return }
    try local { () throws(Errno) in try coordinator.catalog.forgetSent() }
    unannounced = []
    awaitingContent = []
    condemnedPlaces = [:]
  }

  /// Chunks that were uploaded. Any segment tells of those that the log names already: their old
  /// places may be lost.
  func awaitContent(of chunks: [ChunkLocation]) throws(CycleFailure) {
    let ids = chunks.map(\.chunk.id)
    let known = try local { () throws(Errno) in try coordinator.catalog.chunkLocations(ids) }
    awaitingContent.formUnion(ids.filter { known[$0] == nil })
  }

  /// The chunks of which the segment of a plan tells. Those of an upload that goes on wait for its
  /// content: a pack that the log knows and that nothing in it refers to would be condemned within
  /// a day. Without a plan all of them.
  func chunksToTell(_ plan: Plan) -> [ChunkLocation] {
    if plan.upserts.isEmpty, plan.removals.isEmpty, plan.versions.isEmpty { return unannounced }
    if awaitingContent.isEmpty { return unannounced }
    var named: Set<ChunkID> = []
    for record in plan.upserts {
      for version in [record.content].compactMap(\.self) + record.conflicts {
        named.formUnion((version.manifest?.chunks ?? []).map(\.id))
      }
    }
    for id in plan.versions.keys {
      for content in [staged[id], snapshots[id]] {
        named.formUnion((content?.manifest?.chunks ?? []).map(\.id))
      }
    }
    return unannounced.filter {
      !awaitingContent.contains($0.chunk.id) || named.contains($0.chunk.id)
    }
  }

  /// These chunks are in the log.
  func told(_ chunks: [ChunkLocation]) {
    let ids = Set(chunks.map(\.chunk.id))
    unannounced.removeAll { ids.contains($0.chunk.id) }
    awaitingContent.subtract(ids)
  }
}
