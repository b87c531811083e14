internal import Catalog
package import Coordination
internal import Platform
package import SystemPackage

extension ContainerFileSystem {
  /// Begins to bring what a call of `caller` waits for; then the call is to be made again. Throws,
  /// or completes with, the errno to answer where `caller` may cause no download. `completion` gets
  /// nil or an errno, on any thread, after this has returned.
  package func fetch(
    _ wait: ContentWait, for caller: Caller = Caller(user: 0, group: 0),
    completion: @escaping @Sendable (Errno?) -> Void
  ) throws(Errno) -> any FetchTicket {
    let ticket = LaterTicket { completion(.interrupted) }
    let now = coordinator.downloads.permission(ofThread: caller.process) { [self] permission in
      do throws(Errno) {
        let fetcher = try fetcher(for: wait, permission)
        ticket.begin { begin(wait, permission, fetcher, completion) }
      } catch {
        if ticket.refuse() { completion(error) }
      }
    }
    guard let now else { return ticket }
    return begin(wait, now, try fetcher(for: wait, now), completion)
  }

  /// Throws where it is not to be asked.
  private func fetcher(
    for wait: ContentWait, _ permission: DownloadPermission
  ) throws(Errno) -> any ContentFetching {
    if let refusal = permission.refusal(of: wait.kind) {
      if permission.requester != nil {
        coordinator.noteDenied(wait.number, for: permission.cause(wait.kind))
      }
      throw refusal
    }
    guard let fetcher = coordinator.fetcher else { throw Errno.networkDown }
    return fetcher
  }

  private func begin(
    _ wait: ContentWait, _ permission: DownloadPermission, _ fetcher: any ContentFetching,
    _ completion: @escaping @Sendable (Errno?) -> Void
  ) -> any FetchTicket {
    let cause = permission.cause(wait.kind)
    let ticket = fetcher.fetch(wait.number, range: wait.range, cause: cause) { result in
      switch result {
      case .success: completion(nil)
      case .failure(let failure): completion(failure.errno)
      }
    }
    if let ahead = wait.ahead, permission.access == .allow {
      // When it fails, the read that needs it says so.
      _ = fetcher.fetch(wait.number, range: ahead, cause: cause) { _ in }
    }
    return ticket
  }

  /// What is likely to be read next; nobody waits for it.
  func fetchAhead(_ range: Range<UInt64>, of number: InodeNumber, for caller: Caller) {
    let coordinator = coordinator
    @Sendable func begin(_ permission: DownloadPermission) {
      guard permission.access == .allow else { return }
      _ = coordinator.fetcher?.fetch(number, range: range, cause: permission.cause(.read)) { _ in }
    }
    if let now = coordinator.downloads.permission(ofThread: caller.process, orLater: begin) {
      begin(now)
    }
  }
}
