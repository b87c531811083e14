internal import ArgumentParser
internal import ControlProtocol
internal import DaemonClient

struct StoreCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "store", abstract: "Check and repair what the backend stores.",
    subcommands: [Verify.self, Recover.self])

  @OptionGroup var options: GlobalOptions

  func run() throws { throw ValidationError("Name a command; --help lists them.") }

  struct Verify: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "verify",
      abstract: "Check that the backend holds every object, and upload again what it lost.",
      discussion: """
        Without an option, the command compares the backend's lists of names and sizes with the \
        log. With --read-data it downloads every object and checks every byte. With --sample it \
        does that for a share of the objects.

        Content that the backend lost and that is local on this device is uploaded again. The rest is listed by \
        path; run the command on the device that has it. The exit status is 0 if all is well or repaired, else 1.
        """)
    @Argument(help: "Only these containers; without one, all that are on this device.")
    var containers: [String] = []
    @Flag(help: "Read and check every byte.") var readData = false
    @Option(
      help: ArgumentHelp(
        "Read and check every byte of this share of the objects, chosen at random.",
        valueName: "percent"))
    var sample: Double?
    @OptionGroup var options: GlobalOptions

    func validate() throws {
      guard let sample else { return }
      guard sample > 0, sample <= 100 else {
        throw ValidationError("--sample takes a number of percent, more than 0 and at most 100.")
      }
    }

    func run() throws {
      for container in containers { try ContainerCommand.checkName(container) }
      let bar = ProgressBar("verify", options: options)
      defer { bar.finish() }
      let answer = try options.connect().call(
        Methods.VerifyStore.self,
        VerifyRequest(
          readsData: readData || sample != nil, sample: sample ?? 100, containers: containers)
      ) { name, line throws(ControlError) in bar.notified(name, line) }
      bar.finish()
      if options.json { try Terminal.printJSON(answer) } else { show(answer) }
      if !answer.isWell { throw ExitCode(ExitStatus.failed.rawValue) }
    }

    private func show(_ answer: VerifyAnswer) {
      for name in answer.missing { Terminal.line("missing  \(name)") }
      for name in answer.damaged { Terminal.line("damaged  \(name)") }
      if answer.unlisted > 0 { Terminal.line("and \(answer.unlisted) more") }
      if answer.pending > 0 {
        Terminal.line(
          "\(answer.pending) files are local and not uploaded again yet; run `ubiquityfs sync --wait`"
        )
      }
      options.say(
        "Objects: \(answer.objects). Checked: \(answer.checked). Missing: \(answer.missing.count). "
          + "Damaged: \(answer.damaged.count). Repaired: \(answer.repaired).")
    }
  }

  struct Recover: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "recover",
      abstract: "Make containers whole whose store went back to an earlier state.",
      discussion: """
        Publishes what this device knows, and uploads again what it has locally and the store has \
        lost. Every other device does the same as soon as it is online. Run it on one device, \
        best on the one that was used last. Nothing is deleted on any device.

        Lists the files of which no device has uploaded the content so far. A container that \
        cannot be recovered does not keep the others from it: the command names it with the \
        reason, and the exit status is 1.
        """)
    @Argument(
      help: ArgumentHelp("Without it: all that need it.", valueName: "container"))
    var containers: [String] = []
    @OptionGroup var options: GlobalOptions

    func run() throws {
      let report = try options.connect().call(
        Methods.RecoverStore.self, RecoverRequest(containers: containers))
      if options.json { try Terminal.printJSON(report) } else { show(report) }
      guard let first = report.failures.first else { return }
      let isOneStatus = report.failures.allSatisfy { $0.status == first.status }
      throw ControlError(
        isOneStatus ? first.status : .failed,
        report.failures.map { "\($0.id) was not recovered: \($0.error)" }
          .joined(separator: "\n"))
    }

    private func show(_ report: RecoveryReport) {
      if report.formatRestored {
        options.say("The store has its object \"format\" again, with which devices sign in.")
      } else if report.containers.isEmpty, report.failures.isEmpty {
        options.say("The store holds what this device knows; there is nothing to recover.")
      }
      for container in report.containers {
        options.say(
          container.recovered
            ? "\(container.id): recovered \(container.items) items; "
              + "\(container.uploaded) contents were uploaded again."
            : "\(container.id): the store holds what this device knows.")
        guard !container.missing.isEmpty else { continue }
        options.say("No device has uploaded the content of these files so far:")
        for path in container.missing { Terminal.line("\(container.id): \(path)") }
      }
    }
  }
}
