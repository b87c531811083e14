internal import ArgumentParser
internal import ControlProtocol
internal import DaemonClient

struct StoreCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "store", abstract: "Check and repair the data in the backend.",
    subcommands: [Verify.self, Recover.self])

  @OptionGroup var options: GlobalOptions

  func run() throws { throw ValidationError("name a subcommand; --help lists them") }

  struct Verify: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "verify",
      abstract: "Check that the backend holds every object, and upload lost ones again.",
      usage: "ubiquityfs store verify [CONTAINER...] [--read-data] [--sample PERCENT]",
      discussion: """
        Without an option, the command compares the names and sizes of the backend's objects with \
        the log. With --read-data, it downloads every object and checks every byte. With --sample, \
        it does so for a share of the objects.

        The command uploads lost content again if it is local, and lists the rest by path: run the \
        command on a device that has it. The exit status is 0 if every object is valid or \
        repaired, else 1.
        """)
    @Argument(
      help: ArgumentHelp(
        "The container's name (default: all containers on this device).", valueName: "container"))
    var containers: [String] = []
    @Flag(help: "Download every object and check every byte.") var readData = false
    @Option(
      help: ArgumentHelp(
        "Download and check this share of the objects, chosen at random.",
        valueName: "percent"))
    var sample: Double?
    @OptionGroup var options: GlobalOptions

    func validate() throws {
      guard let sample else { return }
      guard sample > 0, sample <= 100 else {
        throw ValidationError("--sample takes a percentage above 0 and at most 100")
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
          "\(answer.pending) files are pending upload; run `ubiquityfs sync --wait`"
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
      abstract: "Repair containers whose store returned to an earlier state.",
      discussion: """
        The command publishes the state that this device knows, and uploads local content that the \
        store lost. Every other device does the same once it is online. Run the command on one \
        device, preferably on the one used last. It deletes nothing on any device.

        The command lists files whose content no device has uploaded yet. If a container cannot be \
        recovered, the command names it with the reason, continues with the others, and exits with \
        1.
        """)
    @Argument(
      help: ArgumentHelp(
        "The container's name (default: all that need it).", valueName: "container"))
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
        options.say("Restored the store's object \"format\", which devices need to sign in.")
      } else if report.containers.isEmpty, report.failures.isEmpty {
        options.say("The store holds all that this device knows; there is nothing to recover.")
      }
      for container in report.containers {
        options.say(
          container.recovered
            ? "\(container.id): recovered \(container.items) items; "
              + "uploaded \(container.uploaded) contents again."
            : "\(container.id): the store holds all that this device knows.")
        guard !container.missing.isEmpty else { continue }
        options.say("No device has uploaded the content of these files so far:")
        for path in container.missing { Terminal.line("\(container.id): \(path)") }
      }
    }
  }
}
