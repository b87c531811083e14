internal import ArgumentParser
internal import ControlProtocol
internal import Daemon
internal import DaemonClient
internal import Glibc

extension AccountCommand {
  struct Devices: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "devices", abstract: "List or remove the account's devices.",
      subcommands: [List.self, Remove.self], defaultSubcommand: List.self)
  }

  struct List: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "list", abstract: "List the account's devices.")
    @OptionGroup var options: GlobalOptions

    func run() throws {
      let report = try options.connect().call(Methods.Devices.self, Nothing())
      if options.json { return try Terminal.printJSON(report) }
      Terminal.line(
        Terminal.table(
          report.devices.map {
            [$0.name + ($0.isThisDevice ? " (this one)" : ""), $0.lastSeen, $0.id]
          }))
    }
  }

  struct Remove: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "remove", abstract: "Remove devices from the account, such as a lost one.",
      usage: "ubiquityfs account devices remove DEVICE... [--secret-file FILE]",
      discussion: """
        Removed devices cannot read later changes, and the other devices ignore their changes. \
        They keep the data that they have read or downloaded. The account gets new keys and a new \
        secret. Check the list of devices first: a thief may have added a device.

        Also revoke the removed devices' access to the backend, such as a bucket's access keys. A \
        device that still has it can delete objects.
        """)

    @Argument(help: ArgumentHelp("The name or identifier of a device.", valueName: "device"))
    var devices: [String]

    @Option(
      help: ArgumentHelp(
        "A file whose first line is the new passphrase; - reads standard input (default: a "
          + "generated secret).", valueName: "file"), completion: .file())
    var secretFile: String?

    @OptionGroup var options: GlobalOptions

    func run() throws {
      let secret = try secretFile.map { try SignIn.secret(in: $0) }
      let answer = try options.connect().call(
        Methods.RemoveDevices.self, RemoveDevicesRequest(devices: devices, secret: secret))
      if options.json { return try Terminal.printJSON(answer) }
      let names = answer.removed.map { "\"\($0.name)\"" }.joined(separator: ", ")
      options.say(
        answer.wasDone
          ? "Another device has already removed \(names)." : "Removed \(names) from the account.")
      Rotate.tell(answer, isGiven: secret != nil && !answer.wasDone, options)
    }
  }

  struct Rotate: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "rotate", abstract: "Give the account new keys and a new secret.",
      discussion: """
        The account's devices can still read all stored data, and upload no content again. Use \
        this command to change the passphrase.
        """)

    @Option(
      help: ArgumentHelp(
        "A file whose first line is the new passphrase; - reads standard input (default: a "
          + "generated secret).", valueName: "file"), completion: .file())
    var secretFile: String?

    @OptionGroup var options: GlobalOptions

    func run() throws {
      let secret = try secretFile.map { try SignIn.secret(in: $0) }
      let answer = try options.connect().call(
        Methods.RotateKeys.self, RotateRequest(secret: secret))
      if options.json { return try Terminal.printJSON(answer) }
      options.say("The account has new keys.")
      Self.tell(answer, isGiven: secret != nil, options)
    }

    /// Prints the new secret, unless the user supplied it.
    static func tell(_ answer: RotationAnswer, isGiven: Bool, _ options: GlobalOptions) {
      guard !isGiven else {
        return options.say("New devices sign in with the new passphrase.")
      }
      options.say("New devices sign in with this secret; the former one no longer works:")
      Terminal.line(answer.secret)
    }
  }

  struct MoveBackend: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "move-backend", abstract: "Move the account to another backend.",
      discussion: """
        The command copies all sealed objects while devices keep working. Then all devices switch \
        to the new backend. They download and upload no local file again. The former backend does \
        not change: delete it after all devices have switched, or keep it as a copy.

        After an interruption, run the command again on any device. No device uploads between \
        the last copy and its own switch.

        A device switches by itself if it can reach the URL. Otherwise run the command on that \
        device with its own URL of the new backend, and with access keys as for `ubiquityfs \
        account sign-in`. It copies nothing again.

        With the current backend's URL, the command cancels an unfinished move.
        """)

    @Argument(help: ArgumentHelp("The URL of an empty backend.", valueName: "url"))
    var backend: String

    @Flag(help: "Cancel a move even if this device cannot reach its target.")
    var force = false

    @OptionGroup var options: GlobalOptions

    func run() throws {
      let answer = try move()
      if answer.former != nil { try waitForDaemon(answer.backend) }
      if options.json { return try Terminal.printJSON(answer) }
      guard let former = answer.former else {
        return options.say("The account stays at \(answer.backend).")
      }
      options.say(
        "The account is at \(answer.backend) now. Copied \(answer.objects) objects "
          + "(\(Terminal.size(answer.bytes))). \(former) is unchanged.")
      if let warning = answer.warning { UbiquityCommand.complain(warning + ".") }
    }

    /// The daemon switches to the new backend after the connection has ended.
    private func move() throws -> MoveBackendAnswer {
      let bar = ProgressBar("move", options: options)
      defer { bar.finish() }
      return try options.connect().call(
        Methods.MoveBackend.self,
        MoveBackendRequest(
          backend: backend,
          environment: BackendAddress.variables(from: GlobalOptions.environment, for: backend),
          force: force)
      ) { name, line throws(ControlError) in bar.notified(name, line) }
    }

    /// Connects again each time, because another daemon may have taken over.
    private func waitForDaemon(_ backend: String) throws {
      let deadline = ContinuousClock.now + .seconds(30)
      while ContinuousClock.now < deadline {
        if let report = try? options.connect().call(Methods.AccountStatus.self, Nothing()),
          report.backend == backend
        {
          return
        }
        usleep(100_000)
      }
      UbiquityCommand.complain(
        "the daemon does not use the new backend yet; `ubiquityfs account status` shows why")
    }
  }

  struct Pair: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "pair", abstract: "Add a new device to the account by a code.",
      discussion: """
        Run `ubiquityfs account sign-in --backend URL --code CODE` on the new device within ten \
        minutes. Both devices show four words. Answer yes here only if they are the same: the new \
        device then gets the account's keys.
        """)

    @Flag(help: "Accept the device without a question; for scripts that compare the words.")
    var yes = false

    @OptionGroup var options: GlobalOptions

    func run() throws {
      guard yes || options.json || Terminal.isInteractive else {
        throw ControlError(
          .usage, "there is no terminal to ask on. Compare the words yourself and add --yes.")
      }
      let client = try options.connect()
      let shown = try client.call(Methods.BeginPairing.self, Nothing())
      if options.json {
        try Terminal.printJSON(shown)
      } else {
        if Terminal.isInteractive, let code = QRCode(shown.code) {
          for line in code.lines { Terminal.line(line) }
        }
        Terminal.line(shown.code)
        options.say(
          "Within \(shown.seconds / 60) minutes, run on the new device:\n"
            + "  ubiquityfs account sign-in --backend '\(shown.backend)' --code \(shown.code)")
      }
      let asks = try client.call(Methods.WaitForPairing.self, Nothing())
      if options.json {
        try Terminal.printJSON(asks)
      } else {
        Terminal.line(
          "\(asks.name) has the code. This device shows these words: "
            + asks.words.joined(separator: " "))
      }
      let isYes = yes || (!options.json && Terminal.asks("Does \(asks.name) show the same words?"))
      let done = try client.call(
        Methods.AnswerPairing.self, PairingAnswerRequest(isYes: isYes))
      if options.json { return try Terminal.printJSON(done) }
      guard let name = done.name else {
        throw ControlError(.notPermitted, "the answer was no: the new device did not get the keys")
      }
      options.say(
        done.hasJoined
          ? "\(name) is signed in."
          : "\(name) has the keys, but has not signed in yet. "
            + "`ubiquityfs account devices` lists it as soon as it has."
      )
    }
  }
}
