internal import ArgumentParser
internal import ControlProtocol
internal import Daemon
internal import DaemonClient
internal import Glibc
internal import Platform
internal import SystemPackage

struct AccountCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "account", abstract: "Manage the account, its devices, keys and backend.",
    subcommands: [
      SignIn.self, Status.self, SignOut.self, Devices.self, Rotate.self, Pair.self,
      MoveBackend.self,
      Secret.self, Quota.self,
    ])

  @OptionGroup var options: GlobalOptions

  func run() throws { throw ValidationError("name a subcommand; --help lists them") }

  struct SignIn: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "sign-in",
      abstract: "Sign in, and create the account if the backend holds none.",
      usage: """
        ubiquityfs account sign-in [--backend URL] [--device-name NAME]
            [--secret-file FILE | --code CODE]
        """,
      discussion: """
        The default backend is the directory ubiquityfs-cloud beside the state directory. Other \
        devices sign in with the output of `ubiquityfs account secret`, or with a code from \
        `ubiquityfs account pair`.

        The state directory keeps the secret. Only for the default backend, the command also \
        writes it to the file ubiquityfs-cloud.key beside the backend's directory.
        """)

    @Option(
      help: ArgumentHelp(
        "The URL of the backend: \(BackendAddress.forms).",
        valueName: "url"))
    var backend: String?

    @Option(
      help: ArgumentHelp(
        "The name of this device on other devices (default: the host's name).",
        valueName: "name"))
    var deviceName: String?

    @Option(
      help: ArgumentHelp(
        "A file whose first line is a passphrase or a secret; - reads standard input.",
        valueName: "file"),
      completion: .file())
    var secretFile: String?

    @Option(
      help: ArgumentHelp(
        "The code that `ubiquityfs account pair` shows on a signed-in device.", valueName: "code"))
    var code: String?

    @OptionGroup var options: GlobalOptions

    func run() throws {
      guard code == nil || secretFile == nil else {
        throw ValidationError("--code and --secret-file exclude each other")
      }
      let secret = try secretFile.map { try Self.secret(in: $0) }
      let client = try options.connect()
      let request = SignInRequest(
        backend: backend, deviceName: deviceName, secret: secret,
        environment: BackendAddress.variables(from: GlobalOptions.environment, for: backend))
      let answer =
        try code.map { try pair($0, request, client) }
        ?? client.call(Methods.SignIn.self, request)
      if options.json { return try Terminal.printJSON(answer) }
      if answer.wasSignedIn {
        options.say("Already signed in to \(answer.backend) as \(answer.device).")
      } else {
        options.say(
          "Signed in to \(answer.backend) as \(answer.device)"
            + (answer.isNewAccount ? "; the account is new." : "."))
        if let file = answer.secretFile {
          options.say(
            "The secret is in \(file), which only you can read. State directories beside this one "
              + "sign in with it.")
        } else if answer.isNewAccount, secret == nil {
          options.say(
            "Keep the output of `ubiquityfs account secret` in a safe place. You need it to sign "
              + "in again or on another machine.")
        }
      }
      if let warning = answer.warning { UbiquityCommand.complain(warning + ".") }
    }

    private func pair(_ code: String, _ request: SignInRequest, _ client: ControlClient) throws
      -> SignInAnswer
    {
      let other = try client.call(
        Methods.RequestPairing.self, PairingRequestParameters(code: code, signIn: request))
      if options.json {
        try Terminal.printJSON(other)
      } else {
        Terminal.line("The code is correct. This device shows these words:")
        Terminal.line("  " + other.words.joined(separator: " "))
        options.say("Compare them with the words on \(other.name), and answer there.")
      }
      return try client.call(Methods.FinishPairing.self, Nothing())
    }

    /// Reads the first line, without its newline.
    static func secret(in path: String) throws -> String {
      let bytes: [UInt8]
      do throws(Errno) {
        let file =
          path == "-"
          ? OpenFile(owning: try retrying { dup(0) }) : try OpenFile.open(path, flags: O_RDONLY)
        bytes = try Self.head(of: file)
      } catch {
        throw ControlError(
          error == .noSuchFileOrDirectory
            ? .notFound : error == .permissionDenied ? .notPermitted : .failed,
          "cannot read the secret file \"\(path)\": \(error)")
      }
      var line = bytes.prefix { $0 != 0x0A }
      if line.last == 0x0D { line.removeLast() }
      guard !line.isEmpty else {
        throw ControlError(
          .usage,
          "the first line of the secret file \"\(path)\" is empty; write the secret there")
      }
      guard let text = String(validating: line, as: UTF8.self) else {
        throw ControlError(.usage, "the secret in \"\(path)\" is not UTF-8 text")
      }
      return text
    }

    /// Reads a file or pipe up to 64 KiB or the first newline.
    private static func head(of file: OpenFile) throws(Errno) -> [UInt8] {
      var bytes: [UInt8] = []
      var piece = [UInt8](repeating: 0, count: 4096)
      while bytes.count < 1 << 16, !bytes.contains(0x0A) {
        let count = try retrying { Glibc.read(file.descriptor, &piece, piece.count) }
        if count == 0 { break }
        bytes += piece[..<count]
      }
      return bytes
    }
  }

  struct Status: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "status",
      abstract: "Show the account, its backend, and whether it is connected.")
    @OptionGroup var options: GlobalOptions

    func run() throws {
      let report = try options.connect().call(Methods.AccountStatus.self, Nothing())
      if options.json { return try Terminal.printJSON(report) }
      guard report.signedIn else { return Terminal.line("Not signed in.") }
      var rows = [
        ["Backend", report.backend ?? ""], ["Device", report.device ?? ""],
        ["Connected", report.connected == true ? "yes" : "no"],
      ]
      if let error = report.error { rows.append(["Error", error]) }
      Terminal.line(Terminal.table(rows))
    }
  }

  struct SignOut: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "sign-out", abstract: "Sign out of the account on this device.",
      discussion: """
        Fails while a container is mounted or an upload is pending. Files that never leave the \
        device (.nosync) stay in the state directory, and return at the next sign-in.
        """)

    @Flag(help: "Unmount first; keep pending uploads for the next sign-in.")
    var force = false

    @OptionGroup var options: GlobalOptions

    func run() throws {
      let answer = try options.connect().call(
        Methods.SignOut.self, SignOutRequest(force: force))
      if options.json { return try Terminal.printJSON(answer) }
      options.say("Signed out.")
    }
  }

  struct Secret: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "secret",
      abstract: "Print the secret with which other devices sign in. Keep it private.")
    @OptionGroup var options: GlobalOptions

    func run() throws {
      let answer = try options.connect().call(Methods.Secret.self, Nothing())
      if options.json { return try Terminal.printJSON(answer) }
      Terminal.line(answer.secret)
    }
  }
}
