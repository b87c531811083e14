import Coordination
import Glibc
import Platform
import SystemPackage
import TestWaiting
import Testing

/// Who asks, and what that may cause. On real processes.
@Suite struct DownloadGateTests {
  private static let hour: UInt64 = 3_600_000_000_000

  /// A variable of every child, which the test process lacks. `posix_spawn` may return while the
  /// child still has the memory of the test process, and with it its environment.
  private static let childVariable = "DOWNLOAD_GATE_TEST"

  /// Waits until the `execve` of a child is complete: the kernel sets the environment last.
  private func waitForProgram(of child: Int32) async throws {
    try await eventually("the child has its environment") {
      Processes.environment(of: child, Self.childVariable).isText
    }
  }

  /// To be freed by the caller.
  private static func strings(_ texts: [String]) -> [UnsafeMutablePointer<CChar>?] {
    texts.map { strdup($0) } + [nil]
  }

  /// A child that sleeps until `body` is through. With `isComplete` its `execve` is over before
  /// `body` begins: `posix_spawn` returns earlier than that.
  private func withChild<Value: Sendable>(
    _ environment: [String] = [], isComplete: Bool = true, _ body: (Int32) async throws -> Value
  ) async throws -> Value {
    let arguments = Self.strings(["sleep", "1000"])
    let variables = Self.strings(["PATH=/usr/bin:/bin", "\(Self.childVariable)=1"] + environment)
    defer { for text in arguments + variables { free(text) } }
    var child: pid_t = 0
    let code = posix_spawnp(&child, "sleep", nil, nil, arguments, variables)
    try #require(code == 0)
    let process = child
    defer {
      kill(process, SIGKILL)
      var status: Int32 = 0
      waitpid(process, &status, 0)
    }
    if isComplete { try await waitForProgram(of: process) }
    return try await body(process)
  }

  @Test("the answer for a program that is being started is not kept")
  func startingProgram() async throws {
    // `posix_spawn` returns while the kernel still builds the program, so some of these are early.
    for _ in 0..<200 {
      try await withChild(["UBIQUITYFS_DOWNLOAD=deny"], isComplete: false) { child in
        let gate = DownloadGate(patience: Self.hour, keeping: Self.hour)
        _ = await gate.permission(ofThread: child)
        try await waitForProgram(of: child)
        #expect(await gate.permission(ofThread: child).refusal(of: .read) == .notPermitted)
      }
    }
  }

  @Test("a program that replaces itself by the same program is asked again")
  func sameProgramAgain() async throws {
    let script = "read line; UBIQUITYFS_DOWNLOAD=deny exec /bin/sh -c 'read line'"
    let (shell, input) = try spawnShell(script)
    defer {
      close(input)
      kill(shell, SIGKILL)
      var status: Int32 = 0
      waitpid(shell, &status, 0)
    }
    try await waitForProgram(of: shell)
    let gate = DownloadGate(patience: Self.hour, keeping: Self.hour)
    #expect(await gate.permission(ofThread: shell).access == .allow)
    let before = Processes.executable(of: shell)
    #expect(write(input, "\n", 1) == 1)
    try await eventually("the second shell has its environment") {
      Processes.environment(of: shell, "UBIQUITYFS_DOWNLOAD").isText
    }
    #expect(Processes.executable(of: shell) == before)
    #expect(await gate.permission(ofThread: shell).refusal(of: .read) == .notPermitted)
  }

  /// A shell and the descriptor that it reads its lines from.
  private func spawnShell(_ script: String) throws -> (process: Int32, input: Int32) {
    var ends: [Int32] = [0, 0]
    try #require(pipe(&ends) == 0)
    defer { close(ends[0]) }
    _ = fcntl(ends[1], F_SETFD, FD_CLOEXEC)
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    defer { posix_spawn_file_actions_destroy(&actions) }
    posix_spawn_file_actions_adddup2(&actions, ends[0], 0)
    let arguments = Self.strings(["sh", "-c", script])
    let variables = Self.strings(["PATH=/usr/bin:/bin", "\(Self.childVariable)=1"])
    defer { for text in arguments + variables { free(text) } }
    var child: pid_t = 0
    try #require(posix_spawn(&child, "/bin/sh", &actions, nil, arguments, variables) == 0)
    return (child, ends[1])
  }

  @Test func withoutRulesEverythingMayBeAndIsKnown() async throws {
    try await withChild { child in
      let permission = await DownloadGate().permission(ofThread: child)
      #expect(permission.access == .allow && permission.rule == nil)
      let requester = try #require(permission.requester)
      #expect(requester.process == child && requester.name == "sleep")
      #expect(requester.executable == Processes.executable(of: child))
    }
  }

  @Test func theFirstRuleThatMatchesCounts() async throws {
    try await withChild { child in
      let path = String(decoding: try #require(Processes.executable(of: child)), as: UTF8.self)
      let gate = DownloadGate(
        rules: [
          DownloadRule(executable: "nothing", access: .deny(.notPermitted), name: "1"),
          DownloadRule(executable: path, access: .rangeOnly, name: "2"),
          DownloadRule(executable: "*", access: .deny(.notPermitted), name: "3"),
        ], patience: Self.hour, keeping: Self.hour)
      let permission = await gate.permission(ofThread: child)
      #expect(permission.access == .rangeOnly && permission.rule == "2")
      // And it is known from then on.
      let again = gate.permission(ofThread: child) { _ in Issue.record("it is known") }
      #expect(again == permission)
      #expect(await gate.permission(ofThread: getpid()).rule == "3")
    }
  }

  @Test func aControlGroupIsLookedAt() async throws {
    try await withChild { child in
      let groups = Processes.controlGroups(of: child)
      try #require(!groups.isEmpty)
      let gate = DownloadGate(rules: [
        DownloadRule(controlGroup: groups[0], access: .rangeOnly, name: "1")
      ])
      #expect(await gate.permission(ofThread: child).access == .rangeOnly)
    }
  }

  @Test func aRunIsOfAllThatItStarts() async throws {
    let gate = DownloadGate()
    let own = try #require(Processes.start(of: getpid()))
    try await withChild { child in
      #expect(await gate.permission(ofThread: child).access == .allow)
      gate.register(own, .deny(.resourceTemporarilyUnavailable))
      let permission = await gate.permission(ofThread: child)
      #expect(permission.refusal(of: .read) == .resourceTemporarilyUnavailable)
      #expect(permission.rule == "run --no-download")
      // A thread is its process's.
      let number = Lock<Int32?>(nil)
      let isKnown = Gate()
      let mayEnd = Gate()
      _ = startThread {
        let name = Files.linkTarget("/proc/thread-self")?.split(separator: "/").last
        number.withLock { $0 = name.flatMap { Int32($0) } }
        isKnown.open()
        mayEnd.wait()
      }
      defer { mayEnd.open() }
      isKnown.wait()
      let thread = try #require(number.withLock { $0 })
      let ofThread = await gate.permission(ofThread: thread)
      #expect(ofThread.refusal(of: .read) == .resourceTemporarilyUnavailable)
      // The more careful one stays.
      gate.register(own, .rangeOnly)
      #expect(await gate.permission(ofThread: child).access == permission.access)
    }
  }

  @Test func aNumberThatWasGivenAnewIsNoRun() async throws {
    let gate = DownloadGate()
    let own = try #require(Processes.start(of: getpid()))
    gate.register(Processes.Start(number: own.number, ticks: own.ticks + 1), .rangeOnly)
    try await withChild { child in
      #expect(await gate.permission(ofThread: child).access == .allow)
    }
  }

  @Test func theMarkIsOfWhoInheritsIt() async throws {
    try await withChild(["UBIQUITYFS_DOWNLOAD=deny:EAGAIN"]) { child in
      let gate = DownloadGate(patience: Self.hour)
      let permission = await gate.permission(ofThread: child)
      #expect(permission.access == .deny(.resourceTemporarilyUnavailable))
      #expect(permission.rule == "run --no-download")
      #expect(await gate.permission(ofThread: getpid()).access == .allow)
      // A rule that is more careful than the mark counts, and the other way round.
      let rule = DownloadRule(executable: "sleep", access: .rangeOnly, name: "rule")
      #expect(
        await DownloadGate(rules: [rule], patience: Self.hour).permission(ofThread: child).access
          == permission.access)
    }
    try await withChild(["UBIQUITYFS_DOWNLOAD=range-only"]) { child in
      let rule = DownloadRule(executable: "sleep", access: .deny(.notPermitted), name: "rule")
      let permission = await DownloadGate(rules: [rule], patience: Self.hour).permission(
        ofThread: child)
      #expect(permission.access == .deny(.notPermitted) && permission.rule == "rule")
      let gate = DownloadGate(patience: Self.hour)
      #expect(await gate.permission(ofThread: child).access == .rangeOnly)
    }
  }

  @Test func anEnvironmentIsNotWaitedForForEver() async throws {
    try await withChild(["UBIQUITYFS_DOWNLOAD=deny"]) { child in
      // Without patience the answer may come before the mark is read, and is not kept then.
      let gate = DownloadGate(patience: 0)
      var permission = await gate.permission(ofThread: child)
      try await eventually("the mark is read") {
        if permission.access == .allow {
          permission = await DownloadGate().permission(ofThread: child)
        }
        return permission.access != .allow
      }
      #expect(permission.refusal(of: .read) == .notPermitted)
    }
  }

  @Test func theKernelAndWhoIsGone() async throws {
    let gate = DownloadGate(rules: [
      DownloadRule(executable: "*", access: .deny(.notPermitted), name: "all")
    ])
    #expect(await gate.permission(ofThread: 0).access == .allow)
    let gone = try await withChild { $0 }
    let permission = await gate.permission(ofThread: gone)
    #expect(permission.refusal(of: .read) != nil && permission.requester == nil)
    // What it wrote is not lost for that.
    #expect(permission.refusal(of: .write) == nil)
  }

  @Test func whatIsGivenUpBeforeItBeganDoesNotBegin() {
    final class Fetch: FetchTicket {
      let cancelled = Lock(0)
      func cancel() { cancelled.withLock { $0 += 1 } }
    }
    let told = Lock(0)
    let fetch = Fetch()
    let early = LaterTicket { told.withLock { $0 += 1 } }
    early.cancel()
    early.cancel()
    early.begin { fetch }
    #expect(told.withLock { $0 } == 1 && !early.refuse())
    let begun = LaterTicket { told.withLock { $0 += 1 } }
    begun.begin { fetch }
    #expect(!begun.refuse())
    begun.cancel()
    #expect(fetch.cancelled.withLock { $0 } == 1 && told.withLock { $0 } == 1)
    let refused = LaterTicket { told.withLock { $0 += 1 } }
    #expect(refused.refuse() && !refused.refuse())
    refused.cancel()
    #expect(told.withLock { $0 } == 1)
  }
}

extension Processes.EnvironmentValue {
  fileprivate var isText: Bool {
    if case .text = self { true } else { false }
  }
}
