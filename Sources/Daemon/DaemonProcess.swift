package import ControlProtocol
internal import Glibc
internal import Logging
internal import Platform
internal import SystemPackage

/// The daemon as a process: from its lock to its clean end.
package enum DaemonProcess {
  package static let socketName = "control.sock"

  /// Serves a state directory until SIGTERM, SIGINT or SIGHUP. On SIGUSR2 another daemon, of the
  /// program as it is on the disk then, goes on with the mounts. `isDetached`: started by a
  /// command, with the log file as stderr; else it logs to stderr too.
  package static func run(
    state path: String, configuration: Configuration, isDetached: Bool, isQuiet: Bool,
    replaces: Bool = false
  ) throws(ControlError) {
    var succession = Succession.take()
    umask(0o077)
    signal(SIGPIPE, SIG_IGN)
    keepMemorySmall()
    CoreDump.omitMemory()
    // Before there are threads: all of them leave these to the one that waits for them.
    var signals = sigset_t()
    sigemptyset(&signals)
    for signal in [SIGTERM, SIGINT, SIGHUP, SIGUSR2] { sigaddset(&signals, signal) }
    pthread_sigmask(SIG_BLOCK, &signals, nil)

    let state = try StateDirectory.prepare(path)
    // A daemon that came in the place of one that died gives way to one that a service manager
    // starts.
    let lock: OpenFile
    if let left = succession?.lock {
      try state.takeOver(left)
      lock = left
    } else if isDetached {
      lock = try state.lock()
    } else {
      switch try Handover.begin(state, isForced: replaces) {
      case .lock(let taken): lock = taken
      case .succession(let given):
        try state.takeOver(given.lock)
        (succession, lock) = (given, given.lock)
      }
    }
    defer { withExtendedLifetime((lock, succession)) {} }
    if isDetached {
      closeInherited(except: succession?.descriptors ?? [lock.descriptor])
    }
    // The directory that a command was called in must not be kept busy.
    if chdir("/") != 0 { throw ControlError(.failed, "cannot change to the directory \"/\"") }
    raiseDescriptorLimit()

    let sink = LogSink(path: state.log, isDetached: isDetached)
    sink.logCrashes()
    let level =
      configuration.logLevel.flatMap { Logger.Level(rawValue: $0) }
      ?? (isQuiet ? .warning : .info)
    let logger = sink.logger("daemon", level: level)
    logger.info("version \(Product.version), process \(getpid()), serves \"\(state.path)\"")

    let successor = Keeper.successor(
      state, logLevel: configuration.logLevel, earlyDeaths: succession?.earlyDeaths ?? 0)
    let watchdog = ConnectionWatchdog(successor: successor, lock: lock) { logger.warning("\($0)") }
    let inherited = succession.map { InheritedMounts($0, logger) }
    // From here on the mounts outlive this daemon, too.
    inherited?.beKept(by: watchdog)
    if let predecessor = succession?.predecessor {
      try inherited?.waitForEnd(of: predecessor)
    }
    let service = DaemonService(
      state: state, configuration: configuration, guards: MountGuard(state, watchdog, logger),
      inherited: inherited, restoresMounts: successor != nil
    ) {
      sink.logger($0, level: level)
    }
    service.start()
    inherited?.abandonRest()
    var methods = service.methods
    let handover = Handover(
      service, watchdog, lock: lock, mayGiveWay: isDetached && succession != nil, logger: logger)
    service.setSuccessor { handover.replaceItself() }
    methods.add(Methods.HandOver.self) { request, connection throws(ControlError) in
      try handover.run(request, connection)
    }
    let server = ControlServer(methods: methods, logger: logger)
    try server.start(directory: state.path, name: socketName)
    unmapUnusedCode()

    let manager = ServiceManager()
    manager.ready()
    var received: Int32 = 0
    while true {
      guard sigwait(&signals, &received) == 0 else { continue }
      guard received == SIGUSR2 else { break }
      handover.replaceItself()
    }
    manager.stopping()
    logger.info("signal \(received): flushing and unmounting")
    server.stop()
    service.stop()
    if state.isLocked(by: lock) { try? Files.remove("\(state.path)/\(socketName)") }
    watchdog.end()
    logger.info("ended")
  }

  /// A pipe that a script reads from must not stay open for as long as a daemon lives that a
  /// command in the script started.
  private static func closeInherited(except kept: Set<Int32>) {
    for name in (try? Files.names(in: "/proc/self/fd")) ?? [] {
      if let descriptor = Int32(name), descriptor > 2, !kept.contains(descriptor) {
        close(descriptor)
      }
    }
  }

  /// Content files that programs have open share these; see `DescriptorBudget`.
  private static func raiseDescriptorLimit() {
    let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
    var limit = rlimit()
    guard getrlimit(resource, &limit) == 0 else { return }
    // A privileged daemon may raise the hard limit too.
    var raised = rlimit(rlim_cur: 1 << 20, rlim_max: max(1 << 20, limit.rlim_max))
    if limit.rlim_max < raised.rlim_cur, setrlimit(resource, &raised) == 0 { return }
    limit.rlim_cur = limit.rlim_max
    setrlimit(resource, &limit)
  }
}
