internal import Backend
internal import Catalog
internal import ContentStore
internal import ControlProtocol
internal import Glibc
internal import Model
internal import Platform
internal import RemoteStore
internal import SyncEngine
internal import SystemPackage

extension DaemonService {
  // MARK: fsck

  /// Checks every container that is here. Works while they are mounted and in use.
  func check(_ request: CheckRequest) throws(ControlError) -> CheckReport {
    let account = try requireAccount()
    var problems: [FoundProblem] = []
    for session in account.sessions {
      do throws(Errno) {
        problems += try session.check(repair: request.repair)
      } catch {
        throw ControlError(.failed, "cannot check \"\(session.id)\": \(error)")
      }
    }
    let failures = account.failures
    for (id, failure) in failures.sorted(by: { $0.key < $1.key }) {
      problems.append(
        FoundProblem(container: id.description, description: failure, isRepaired: false))
    }
    let names = account.sessions.map(\.id) + failures.keys
    return CheckReport(
      containers: names.map(\.description).sorted(), problems: problems)
  }

  // MARK: doctor

  func diagnose(_ connection: ClientConnection) -> DiagnosisReport {
    var findings = [device, helper, allowOther, stateDirectory, space, clock]
    findings += account(connection)
    findings += mounts
    return DiagnosisReport(findings: findings)
  }

  private var device: Finding {
    guard Files.exists("/dev/fuse") else {
      return Finding(
        "fuse", .failed,
        "\"/dev/fuse\" does not exist; load the kernel module with `modprobe fuse`, or, in a Linux "
          + "container, allow access to the device")
    }
    guard access("/dev/fuse", R_OK | W_OK) == 0 else {
      return Finding("fuse", .failed, "cannot open \"/dev/fuse\"; set its mode to 0666")
    }
    return Finding("fuse", .ok, "/dev/fuse can be opened")
  }

  private var helper: Finding {
    let path = (getenv("PATH").map { String(cString: $0) } ?? "/usr/bin:/bin")
      .split(separator: ":").map { (directory: Substring) -> String in "\(directory)/fusermount3" }
      .first { access($0, X_OK) == 0 }
    guard let path else {
      return Finding(
        "fusermount3", geteuid() == 0 ? .warning : .failed,
        "fusermount3 is not in the PATH; install the package fuse3")
    }
    let isSetUserID = (try? Files.status(path)).map { $0.st_mode & S_ISUID != 0 } ?? false
    guard isSetUserID || geteuid() == 0 else {
      return Finding(
        "fusermount3", .failed,
        "\"\(path)\" is not set-user-ID root; reinstall the package fuse3")
    }
    return Finding("fusermount3", .ok, path)
  }

  private var allowOther: Finding {
    let text = (try? Files.read("/etc/fuse.conf")).map { String(decoding: $0, as: UTF8.self) } ?? ""
    let isAllowed = text.split(separator: "\n").contains {
      $0.filter { !$0.isWhitespace } == "user_allow_other"
    }
    guard geteuid() != 0, !isAllowed else {
      return Finding("allow_other", .ok, "mounts can be opened to other users")
    }
    return Finding(
      "allow_other", .ok,
      "only root can use -o allow_other; for other users, put user_allow_other into "
        + "\"/etc/fuse.conf\"")
  }

  private var stateDirectory: Finding {
    let open = ["account.json", "device.json", "control.sock"].filter { name in
      (try? Files.status("\(state.path)/\(name)")).map { $0.st_mode & 0o077 != 0 } ?? false
    }
    guard open.isEmpty else {
      return Finding(
        "state", .failed,
        "other users can access \(open.joined(separator: ", ")); set the mode to 600")
    }
    return Finding("state", .ok, state.path)
  }

  private var space: Finding {
    var result = statvfs()
    guard statvfs(state.path, &result) == 0 else {
      return Finding("space", .warning, "cannot read the free space of \"\(state.path)\"")
    }
    let free = UInt64(result.f_bavail) * UInt64(result.f_frsize)
    let text = "\(free >> 20) MiB free for \"\(state.path)\""
    return free < 256 << 20
      ? Finding("space", .warning, "only \(text); evict or delete some files")
      : Finding("space", .ok, text)
  }

  private var clock: Finding {
    // 2025-01-01: conflicts are decided by time, and a clock that was never set is always behind.
    SystemClock().nanoseconds() < 1_735_689_600_000_000_000
      ? Finding("clock", .failed, "the clock is earlier than the release of this program; set it")
      : Finding("clock", .ok, "the clock is set")
  }

  private func account(_ connection: ClientConnection) -> [Finding] {
    guard let account else {
      let error = accountReport().error
      return [
        Finding(
          "account", error == nil ? .warning : .failed,
          error ?? "no account is signed in; run `ubiquityfs account sign-in`")
      ]
    }
    var findings = [
      Finding(
        "account", .ok,
        "signed in to \"\(account.stored.backend)\" as \"\(account.device.name)\"")
    ]
    if offline.isOffline {
      findings.append(
        Finding("backend", .warning, "offline mode is on; the backend was not checked"))
    } else {
      do throws(ControlError) {
        try lookForBackend(account, connection)
        try connection.wait {
          try await withDeadline(.seconds(10)) {
            let stored: [UInt8]
            do throws(StoreError) {
              stored = try await account.stack.store.get("format", range: nil)
            } catch .notFound {
              throw ControlError(
                .failed,
                "the backend has no object \"format\", which devices need to sign in; run "
                  + "`ubiquityfs store recover`")
            }
            guard stored == account.account.format else { throw RemoteError.wrongSecret }
            try await account.connect()
          }
        }
        findings.append(
          Finding("backend", .ok, "it is readable and writable, and the secret is correct"))
        if let late = lookAtLogs(account, connection) { findings.append(late) }
        if let foreign = foreignObjects(account, connection) { findings.append(foreign) }
      } catch {
        findings.append(Finding("backend", .failed, error.message))
      }
    }
    for session in account.sessions {
      guard let problem = session.sync.condition.problem(of: session.id) else { continue }
      findings.append(Finding("container \(session.id)", .failed, problem))
    }
    for (id, failure) in account.failures {
      findings.append(Finding("container \(id)", .failed, failure))
    }
    return findings
  }

  /// The condition of a container comes from the last look at its log, so there is one first. Nil:
  /// it is done.
  private func lookAtLogs(_ account: AccountSession, _ connection: ClientConnection) -> Finding? {
    let sessions = account.sessions
    do throws(ControlError) {
      try connection.wait {
        try await Self.abandoning(after: .seconds(10)) {
          await withTaskGroup { group in
            for session in sessions { group.addTask { await session.sync.checkHead() } }
          }
        }
      }
      return nil
    } catch {
      return Finding(
        "containers", .warning,
        "their logs could not be read within 10 seconds, so their state may be outdated; run "
          + "`ubiquityfs sync`")
    }
  }

  /// Nil if there is none. A store of very many objects is not looked through to its end.
  private func foreignObjects(_ account: AccountSession, _ connection: ClientConnection) -> Finding?
  {
    // Names that were found before the deadline count.
    let progress = Lock(ForeignObjects())
    _ = try? connection.wait {
      try await withDeadline(.seconds(30)) {
        await account.account.foreignObjects { found in progress.withLock { $0 = found } }
      }
    }
    let found = progress.withLock { $0 }
    let gap = Self.gap(in: found)
    guard found.count > 0 else {
      return gap.map {
        Finding("foreign files", found.failure == nil ? .ok : .warning, "none was found, but \($0)")
      }
    }
    // The names may have control characters in them.
    let names = found.examples.map(\.debugDescription).joined(separator: ", ")
    let rest = found.count - found.examples.count
    return Finding(
      "foreign files", .warning,
      "the backend holds \(found.isComplete ? "" : "at least ")\(found.count) "
        + "\(found.count == 1 ? "file or directory" : "files or directories") that ubiquityfs did "
        + "not write: \(names)" + (rest > 0 ? " and \(rest) more" : "")
        + ". They are ignored. Remove them, and find the program that writes there"
        + (gap.map { "; \($0)" } ?? ""))
  }

  /// Nil if everything was looked at.
  private static func gap(in found: ForeignObjects) -> String? {
    guard !found.isComplete else { return nil }
    let places = found.unfinished.map { $0.isEmpty ? "the top directory" : $0 }
    let reason =
      found.failure?.description ?? "there are too many names, or the backend answers slowly"
    return "\(places.joined(separator: ", ")) could not be listed completely: \(reason)"
  }

  private var mounts: [Finding] {
    let findings = ((try? MountTable.read()) ?? [])
      .filter { $0.type == MountedFileSystem.ubiquityType }
      .compactMap { mount -> Finding? in
        let path = String(decoding: mount.mountpoint, as: UTF8.self)
        switch MountTable.condition(of: path, milliseconds: 5000) {
        case .answering: return nil
        case .dead:
          return Finding(
            "mounts", .warning,
            "\"\(path)\" has lost its daemon; run `ubiquityfs unmount \(path)`")
        case .silent:
          return Finding(
            "mounts", .warning,
            "\"\(path)\" does not answer: its daemon is stopped or was killed; run `ubiquityfs "
              + "unmount \(path)`")
        }
      }
    return findings.isEmpty
      ? [Finding("mounts", .ok, "no mount has lost its daemon")] : findings
  }
}
