internal import RemoteStore
internal import SystemPackage

/// Errors of the layers below as a cycle's.
extension ContainerSync {
  func remotely<Result>(_ body: () async throws(RemoteError) -> Result) async throws(CycleFailure)
    -> Result
  {
    do throws(RemoteError) { return try await body() } catch { throw .remote(error) }
  }

  /// A failure of this device's own disk stops the cycle like one of the backend, and says so.
  nonisolated func local<Result>(_ body: () throws(Errno) -> Result) throws(CycleFailure)
    -> Result
  {
    do throws(Errno) {
      return try body()
    } catch {
      // Only readers of all of the catalog fail so (`SnapshotExport`, `LiveChunks`).
      guard error != .canceled else { throw .overtaken }
      throw .local("the catalog of this device cannot be used: \(error)")
    }
  }

  /// Runs `body`, which applies an object of another device. Items that make no tree are damage of
  /// that object, not of this device's catalog.
  nonisolated func taking(
    _ object: String, _ body: () throws(Errno) -> Void
  ) throws(CycleFailure) {
    do throws(Errno) {
      try body()
    } catch .badMessage {
      throw .remote(.damaged(object: object, reason: "its items do not form a tree"))
    } catch {
      throw .local("the catalog of this device cannot be used: \(error)")
    }
  }
}
