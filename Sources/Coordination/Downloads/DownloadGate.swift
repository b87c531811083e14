internal import Dispatch
package import Platform
package import SystemPackage

/// What a program that asks may cause, and who it is.
package struct DownloadPermission: Hashable, Sendable {
  package let access: DownloadAccess
  /// Nil where it is not known who asks.
  package let requester: Requester?
  /// What says so; nil where nothing does.
  package let rule: String?

  package init(_ access: DownloadAccess, requester: Requester? = nil, rule: String? = nil) {
    self.access = access
    self.requester = requester
    self.rule = rule
  }

  package func cause(_ kind: DownloadCause.Kind) -> DownloadCause {
    DownloadCause(kind, by: requester, rule: rule)
  }

  /// Who asked has ended, so that nobody waits.
  static let nobody = DownloadPermission(.deny(.interrupted))

  /// The errno that it gets instead; nil where it may have what it asked for. What was written is
  /// never refused because its program has ended: it would be lost.
  package func refusal(of kind: DownloadCause.Kind) -> Errno? {
    guard case .deny(let errno) = access, kind != .write || self != Self.nobody else { return nil }
    return errno
  }
}

/// Knows which programs may cause downloads: by the rules of the configuration, by `ubiquityfs
/// run`, and by the mark that the latter leaves.
///
/// Asked only when something is about to be downloaded, so nothing that is here pays for it. Any
/// thread; its lock is a leaf. `docs/hydration.md` says what is looked at and in which order.
package final class DownloadGate: Sendable {
  /// The permission of a thread, valid as long as it runs the same image.
  private struct Known {
    let image: Processes.Image
    let permission: DownloadPermission
    let time: UInt64
  }

  private struct State {
    var runs: [Processes.Start: DownloadAccess] = [:]
    var known: [Int32: Known] = [:]
    /// Changes with `runs`, so that what was found out meanwhile is not kept.
    var round: UInt64 = 0
  }

  private let rules: [DownloadRule]
  /// How long an environment is waited for, in nanoseconds.
  private let patience: UInt64
  /// How long a thread stays known, in nanoseconds: a program may be moved to another control
  /// group.
  private let keeping: UInt64
  private let state = Lock(State())
  private static let mostKnown = 1024

  package init(
    rules: [DownloadRule] = [], patience: UInt64 = 2_000_000_000, keeping: UInt64 = 5_000_000_000
  ) {
    self.rules = rules
    self.patience = patience
    self.keeping = keeping
  }

  // MARK: Runs

  /// From here on a process and all that it starts are limited, until it ends: then its number and
  /// time of start are nobody's any more.
  package func register(_ run: Processes.Start, _ access: DownloadAccess) {
    state.withLock { state in
      for known in state.runs.keys where Processes.start(of: known.number) != known {
        state.runs[known] = nil
      }
      // A run that becomes another: neither takes back what the other said.
      state.runs[run] = state.runs[run]?.limited(by: access) ?? access
      state.known = [:]
      state.round += 1
    }
  }

  // MARK: Deciding

  /// What the thread may cause. Where that takes looking at what may be waited for, this gives nil,
  /// and `later` gets it, once, on another thread. 0 is the kernel, or nobody of whom this process
  /// can know.
  package func permission(
    ofThread thread: Int32, orLater later: @escaping @Sendable (DownloadPermission) -> Void
  ) -> DownloadPermission? {
    guard thread > 0 else { return DownloadPermission(.allow) }
    guard let image = Processes.image(of: thread) else {
      // The kernel reads ahead for who has ended since: nobody waits for it.
      return Processes.isGone(thread) ? .nobody : DownloadPermission(.allow)
    }
    let now = monotonicNanoseconds()
    let (known, round) = state.withLock { ($0.known[thread], $0.round) }
    if let known, known.image == image, now < known.time + keeping { return known.permission }
    let requester = Requester(
      process: Processes.process(ofThread: thread),
      name: Processes.command(of: thread) ?? "?", executable: image.executable)
    let found = found(requester, thread)
    let keep: @Sendable (DownloadPermission) -> Void = { [self] permission in
      // An `execve` in between: it is not known which of the two programs this is the permission
      // of.
      guard Processes.image(of: thread) == image else { return }
      state.withLock { state in
        guard state.round == round else { return }
        if state.known.count >= Self.mostKnown { state.known = [:] }
        state.known[thread] = Known(image: image, permission: permission, time: now)
      }
    }
    if case .deny = found.access {
      keep(found)
      return found
    }
    lookForMark(thread, found) { permission, isSure in
      if isSure { keep(permission) }
      later(permission)
    }
    return nil
  }

  package func permission(ofThread thread: Int32) async -> DownloadPermission {
    await withCheckedContinuation { continuation in
      let now = permission(ofThread: thread) { continuation.resume(returning: $0) }
      if let now { continuation.resume(returning: now) }
    }
  }

  /// Who it is, for what everybody may do. Never waits.
  package func requester(ofThread thread: Int32) -> Requester? {
    guard thread > 0, let name = Processes.command(of: thread) else { return nil }
    return Requester(
      process: Processes.process(ofThread: thread), name: name,
      executable: Processes.executable(of: thread))
  }

  /// By rules and runs.
  private func found(_ requester: Requester, _ thread: Int32) -> DownloadPermission {
    let runs = state.withLock { $0.runs }
    if !runs.isEmpty {
      var limit = DownloadAccess.allow
      let lineage = Processes.startedLineage(of: thread)
      // It has ended since: nobody waits, and whether a run started it is not known any more.
      if lineage.isEmpty, Processes.isGone(thread) { return .nobody }
      for ancestor in lineage {
        if let access = runs[ancestor] { limit = limit.limited(by: access) }
      }
      if limit != .allow {
        return Self.ofRun(limit, requester).limited(by: ruled(requester, thread))
      }
    }
    return ruled(requester, thread)
  }

  private static func ofRun(_ access: DownloadAccess, _ requester: Requester) -> DownloadPermission
  {
    DownloadPermission(
      access, requester: requester,
      rule: access == .allow
        ? nil : access == .rangeOnly ? "run --range-only" : "run --no-download")
  }

  private func ruled(_ requester: Requester, _ thread: Int32) -> DownloadPermission {
    guard !rules.isEmpty else { return DownloadPermission(.allow, requester: requester) }
    let groups =
      rules.contains { $0.controlGroup != nil } ? Processes.controlGroups(of: thread) : []
    let rule = rules.first {
      $0.matches(
        executable: requester.executable, command: requester.name, controlGroups: groups)
    }
    return DownloadPermission(rule?.access ?? .allow, requester: requester, rule: rule?.name)
  }

  /// Reads the environment where that may block, and answers without it when it takes too long: the
  /// process may be waiting for that very answer, with its memory map locked.
  private func lookForMark(
    _ thread: Int32, _ found: DownloadPermission,
    _ body: @escaping @Sendable (DownloadPermission, _ isSure: Bool) -> Void
  ) {
    let isAnswered = Lock(false)
    @Sendable func answer(_ permission: DownloadPermission, _ isSure: Bool) {
      let isFirst = isAnswered.withLock { isAnswered in
        defer { isAnswered = true }
        return !isAnswered
      }
      if isFirst { body(permission, isSure) }
    }
    // On a thread of its own: one that is stuck must not keep the others waiting, nor may other
    // work.
    _ = startThread {
      guard let requester = found.requester else { return answer(found, true) }
      func marked(_ value: Processes.EnvironmentValue) -> DownloadPermission {
        guard case .text(let text) = value else { return found }
        return Self.ofRun(DownloadMark.access(text), requester).limited(by: found)
      }
      let value = Processes.environment(of: thread, DownloadMark.variable)
      guard value == .incomplete else { return answer(marked(value), true) }
      // The kernel reads the program's file during `execve` and waits for this answer, so there is
      // nothing to wait for. The mark is inherited, so the parent has it unless it set it itself.
      let parent = Processes.lineage(of: thread, limit: 2).dropFirst().first
      let inherited = parent.map { Processes.environment(of: $0, DownloadMark.variable) }
      answer(marked(inherited ?? .absent), false)
    }
    DispatchQueue.global().asyncAfter(deadline: .now() + .nanoseconds(Int(patience))) {
      answer(found, false)
    }
  }
}

extension DownloadPermission {
  /// The more careful of the two, with what says so.
  fileprivate func limited(by other: DownloadPermission) -> DownloadPermission {
    access.limited(by: other.access) == access && access != .allow ? self : other
  }
}
