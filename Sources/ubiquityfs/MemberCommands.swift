internal import ArgumentParser
internal import ControlProtocol
internal import Daemon
internal import DaemonClient
internal import Glibc

extension AccountCommand {
  struct Devices: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "devices", abstract: "List the account's devices, or remove one.",
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
      discussion: """
        The devices can read nothing that is written from now on, and nothing that they write \
        counts. The account gets new keys and a new secret. What they have read or downloaded they \
        keep. Look at the list of devices first: a thief may have added another one.

        Also take the access to the backend from them, such as the access keys of a bucket: \
        ubiquityfs cannot keep who has these from deleting objects.
        """)

    @Argument(help: ArgumentHelp("The name or identity of a device.", valueName: "device"))
    var devices: [String]

    @Option(
      help: ArgumentHelp(
        "A file whose first line is the account's new passphrase; - for stdin (default: a "
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
          ? "Another device had removed \(names) already." : "Removed \(names) from the account.")
      Rotate.tell(answer, isGiven: secret != nil && !answer.wasDone, options)
    }
  }

  struct Rotate: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "rotate", abstract: "Give the account new keys and a new secret.",
      discussion: """
        What is stored stays readable for the account's devices, and no content is uploaded again. \
        This is also how a passphrase is changed.
        """)

    @Option(
      help: ArgumentHelp(
        "A file whose first line is the account's new passphrase; - for stdin (default: a "
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

    /// Who gave the secret knows it.
    static func tell(_ answer: RotationAnswer, isGiven: Bool, _ options: GlobalOptions) {
      guard !isGiven else {
        return options.say("Further devices sign in with the new passphrase.")
      }
      options.say("Further devices sign in with this secret; the former one is of no use:")
      Terminal.line(answer.secret)
    }
  }

  struct MoveBackend: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "move-backend", abstract: "Move the account to another backend.",
      discussion: """
        All sealed objects are copied while devices go on working. Then all devices use the new \
        backend. No local file is downloaded or uploaded again. The former backend stays as it \
        is: delete it when all devices have followed, or keep it as a copy.

        After an interruption run the command again, on any device. No device uploads between \
        the last copy and its own switch.

        A device follows by itself if it can reach the URL. Otherwise run the command there, \
        with that device's URL of the new backend, and with access keys as for `ubiquityfs \
        account sign-in`. It copies nothing again.

        With the present backend's URL the command gives up an unfinished move.
        """)

    @Argument(help: ArgumentHelp("The URL of an empty backend.", valueName: "URL"))
    var backend: String

    @Flag(help: "Give up a move to another backend although this device cannot reach that one.")
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
        "The account is at \(answer.backend) now; \(answer.objects) objects with "
          + "\(Terminal.size(answer.bytes)) were copied. \(former) stays as it is.")
      if let warning = answer.warning { UbiquityCommand.complain(warning + ".") }
    }

    /// The daemon uses the new backend when the connection has ended.
    private func move() throws -> MoveBackendAnswer {
      let bar = ProgressBar("move", options: options)
      defer { bar.finish() }
      return try options.connect().call(
        Methods.MoveBackend.self,
        MoveBackendRequest(
          backend: backend, environment: BackendAddress.variables(from: GlobalOptions.environment, for: backend),
          force: force)
      ) { name, line throws(ControlError) in bar.notified(name, line) }
    }

    /// Another daemon may take over from the one that answered.
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
        "The daemon does not use the new backend yet; `ubiquityfs account status` says why.")
    }
  }

  struct Pair: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "pair", abstract: "Let a new device in by a code.",
      discussion: """
        Run `ubiquityfs account sign-in --backend URL --code CODE` on the new device within ten \
        minutes. Both devices show four words. Answer yes here only if they are the same: then the \
        account's keys are handed over.
        """)

    @Flag(help: "Answer yes without comparing words; for scripts that see to it themselves.")
    var yes = false

    @OptionGroup var options: GlobalOptions

    func run() throws {
      guard yes || options.json || Terminal.isInteractive else {
        throw ControlError(
          .usage, "there is no terminal to ask on; compare the words yourself and add --yes")
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
          "On the new device run, within \(shown.seconds / 60) minutes:\n  ubiquityfs account sign-in "
            + "--backend '\(shown.backend)' --code \(shown.code)")
      }
      let asks = try client.call(Methods.WaitForPairing.self, Nothing())
      if options.json {
        try Terminal.printJSON(asks)
      } else {
        Terminal.line("\(asks.name) has the code. Its words: \(asks.words.joined(separator: " "))")
      }
      let isYes = yes || (!options.json && Terminal.asks("Does it show the same words?"))
      let done = try client.call(
        Methods.AnswerPairing.self, PairingAnswerRequest(isYes: isYes))
      if options.json { return try Terminal.printJSON(done) }
      guard let name = done.name else {
        throw ControlError(.notPermitted, "refused; nothing was handed over")
      }
      options.say(
        done.hasJoined
          ? "\(name) is signed in."
          : "\(name) was let in, and has not signed in yet; `ubiquityfs account devices` shows it then."
      )
    }
  }
}
