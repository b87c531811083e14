internal import Catalog
internal import ControlProtocol
internal import Coordination
internal import Model
internal import SystemPackage

/// Policies of directories, and what local space is told of.
extension DaemonService {
  /// Sets the policy if one is given; tells what it is then.
  func policy(_ request: PolicyRequest) throws(ControlError) -> PolicyAnswer {
    var answer = PolicyAnswer(items: [])
    for item in try find(request.items) {
      let coordinator = item.session.coordinator
      if let name = request.policy {
        guard let policy = DownloadPolicy(rawValue: name) else {
          throw ControlError(
            .usage,
            "\"\(name)\" is not a policy; known are "
              + DownloadPolicy.allCases.map(\.rawValue).joined(separator: ", "))
        }
        guard item.inode.kind == .directory else {
          throw ControlError(
            .failed,
            "\"\(item.shown)\" is not a directory, and only directories have policies; pin it "
              + "instead")
        }
        try doing(item, "cannot be given a policy") { () throws(Errno) in
          try coordinator.setPolicy(item.inode.number, policy)
        }
      }
      let inode = try doing(item, "cannot be read") { () throws(Errno) in
        try coordinator.catalog.inode(item.inode.number)
      }
      answer.items.append(
        ItemPolicy(
          path: item.shown, policy: inode.kind == .directory ? inode.policy.rawValue : nil,
          effectivePolicy: coordinator.keeping(of: inode).policy.rawValue))
    }
    return answer
  }
}

extension SpaceReport {
  init(_ state: SpaceState) {
    self.init(
      limit: state.limit, minimumFree: state.minimumFree, used: state.used, free: state.free,
      overshoot: state.overshoot, evictable: state.tally?.evictable, kept: state.tally?.kept,
      notUploaded: state.tally?.unsent, inUse: state.tally?.open, excluded: state.tally?.excluded,
      evictedFiles: state.evictedFiles, evictedBytes: state.evictedBytes)
  }
}
