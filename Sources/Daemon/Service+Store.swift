internal import ControlProtocol
internal import Model
internal import Platform
internal import RemoteStore
internal import SyncEngine

/// Checks of what the store holds.
extension DaemonService {
  func addStoreMethods(_ table: inout MethodTable) {
    table.add(Methods.VerifyStore.self) { request, connection throws(ControlError) in
      try self.verifyStore(request, connection)
    }
  }

  private func verifyStore(_ request: VerifyRequest, _ connection: ClientConnection)
    throws(ControlError) -> VerifyAnswer
  {
    guard request.sample > 0, request.sample <= 100 else {
      throw ControlError(.usage, "a sample must be more than 0 and at most 100 percent")
    }
    let account = try requireAccount()
    guard !offline.isOffline else {
      throw ControlError(
        .offline, "offline mode is on; turn it off with `ubiquityfs offline off`")
    }
    try lookForBackend(account, connection)
    var sessions = account.sessions.filter { !$0.sync.isDeleted }
    if !request.containers.isEmpty {
      sessions = try request.containers.map { name throws(ControlError) in
        try storageSession(name, connection)
      }
    }
    let options = VerifyOptions(readsData: request.readsData, sample: request.sample)
    var answer = VerifyAnswer()
    answer.add(try connection.wait { try await account.account.checkMembers() })
    let progress = connection.progressReporter(unit: "objects")
    for session in sessions {
      let before = answer.objects
      let report = try connection.wait {
        try await session.sync.verify(options) { done, total in
          progress(before + done, before + total)
        }
      }
      answer.add(report, of: session)
    }
    return answer
  }
}

extension VerifyAnswer {
  fileprivate mutating func add(_ report: VerifyReport, of session: ContainerSession) {
    objects += report.objects
    checked += report.checked
    repaired += report.repaired
    pending += report.pending
    unlisted += report.unlisted
    missing += report.missing.map { Self.name(of: $0, in: session) }
    damaged += report.damaged.map { Self.name(of: $0, in: session) }
  }

  fileprivate mutating func add(_ members: MembersCheck) {
    objects += members.objects
    checked += members.objects
    repaired += members.repaired
    damaged += members.damaged.map { PathBytes($0.object) }
  }

  /// The path of a file in its mount, or below the container's name where that has none.
  private static func name(of problem: VerifyProblem, in session: ContainerSession) -> PathBytes {
    switch problem {
    case .object(let name, _): return PathBytes(name)
    case .item(let path, let content):
      let base = Array("\(session.mountpoint ?? session.id.description)/".utf8)
      let suffix =
        switch content {
        case .current: ""
        case .conflictVersion: " (a conflict version)"
        case .removed: " (recently deleted)"
        }
      return PathBytes(base + DaemonService.bytes(path) + Array(suffix.utf8))
    }
  }
}
