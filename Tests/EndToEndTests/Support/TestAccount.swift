import Foundation
import Synchronization
import Testing

/// An account in a directory of its own: devices, the backend they share, and where they are
/// mounted.
///
/// `ROOT/NAME` is a device's state directory, `ROOT/ubiquityfs-cloud` the backend,
/// `ROOT/mount-NAME` the mount of `container`.
final class TestAccount: Sendable {
  static let container = "iCloud.org.example.test"

  let root: String
  private let names = Mutex<[String]>([])

  init() throws {
    var template = Array((NSTemporaryDirectory() + "ubiquityfs-test-XXXXXX").utf8CString)
    guard mkdtemp(&template) != nil else { throw POSIXError(.EIO) }
    root = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    for name in ["home", "config", "work"] {
      try FileManager.default.createDirectory(
        atPath: root + "/" + name, withIntermediateDirectories: false)
    }
  }

  /// What every child sees: one language, no configuration of the person who runs the tests.
  private var environment: [String: String] {
    var result = [
      "ROOT": root, "CONTAINER": Self.container, "CLOUD": root + "/ubiquityfs-cloud",
      "WORK": root + "/work", "HOME": root + "/home", "XDG_CONFIG_HOME": root + "/config",
      "XDG_DATA_HOME": root + "/home", "LC_ALL": "C", "TZ": "UTC", "SOURCES": Self.sourceRoot,
      "PATH": Self.binaryDirectory + ":" + (ProcessInfo.processInfo.environment["PATH"] ?? ""),
      // Most tests that kill a daemon start the next one themselves.
      "UBIQUITYFS_KEEPER": "off",
      "GIT_CONFIG_NOSYSTEM": "1", "GIT_AUTHOR_NAME": "T", "GIT_AUTHOR_EMAIL": "t@example.org",
      "GIT_COMMITTER_NAME": "T", "GIT_COMMITTER_EMAIL": "t@example.org",
    ]
    for name in names.withLock({ $0 }) {
      result[name.uppercased()] = documents(name)
      result[name.uppercased() + "_MOUNT"] = mountpoint(name)
    }
    return result
  }

  func mountpoint(_ device: String) -> String { root + "/mount-" + device }
  func documents(_ device: String) -> String { mountpoint(device) + "/Documents" }

  /// Names a device, so that scripts find `$A` and `$A_MOUNT`; does nothing with it yet.
  func know(_ device: String) {
    names.withLock { if !$0.contains(device) { $0.append(device) } }
  }

  /// Signs a device in and mounts the container there. `called`: its name for other devices.
  func device(_ name: String, called: String? = nil, mountOptions: String? = nil) async throws {
    know(name)
    try await script(
      """
      on \(name) account sign-in --device-name \(called ?? name)
      mkdir "$ROOT/mount-\(name)"
      on \(name) mount "$CONTAINER" "$ROOT/mount-\(name)" \(mountOptions.map { "-o " + $0 } ?? "")
      """)
  }

  /// Runs a bash script, with `Shell.prelude` before it, in `ROOT/work`; fails when it fails.
  @discardableResult
  func script(
    _ text: String, timeout: Int = 120, sourceLocation: SourceLocation = #_sourceLocation
  ) async throws -> String {
    let result = try await Shell.run(
      ["bash", "-c", Shell.prelude + text], environment: environment, directory: root + "/work",
      timeout: timeout)
    if result.status != 0 {
      let failure = CommandFailure(command: text, result: result, logs: lastOfLogs())
      Issue.record(failure, sourceLocation: sourceLocation)
      throw failure
    }
    return result.output
  }

  /// Each line begins with the device: `.ci/test` shows them in its summary.
  private func lastOfLogs() -> String {
    names.withLock { $0 }.flatMap { name in
      let log = FileManager.default.contents(atPath: root + "/" + name + "/daemon.log") ?? Data()
      let lines = String(decoding: log.suffix(2000), as: UTF8.self).split(separator: "\n")
      return lines.suffix(8).map { "log of \(name): \($0)" }
    }.joined(separator: "\n")
  }

  /// The program's `--json` answer, as that device.
  func json<Answer: Decodable>(
    _ type: Answer.Type, _ device: String, _ arguments: String,
    sourceLocation: SourceLocation = #_sourceLocation
  ) async throws -> Answer {
    let output = try await script(
      "on \(device) \(arguments) --json", sourceLocation: sourceLocation)
    return try JSONDecoder().decode(type, from: Data(output.utf8))
  }

  func status(_ device: String, sourceLocation: SourceLocation = #_sourceLocation) async throws
    -> StatusAnswer
  {
    try await json(StatusAnswer.self, device, "status", sourceLocation: sourceLocation)
  }

  /// Stops every daemon with SIGTERM, takes down what is mounted, removes the directory. Records an
  /// issue where a daemon does not stop, or leaves its mount.
  func close() async {
    do {
      let result = try await Shell.run(
        ["bash", "-c", Self.cleanup], environment: environment, directory: "/", timeout: 180)
      if result.status != 0 { Issue.record("cleaning up: \(result.errors) \(result.output)") }
    } catch {
      Issue.record("cleaning up: \(error)")
    }
  }

  private static let cleanup = #"""
    # This runs many times for each test, so it starts few processes.
    daemons() {
      find /proc/[0-9]*/exe -prune \( -lname '*/ubiquityfs' -o -lname '*/ubiquityfs (deleted)' \) \
        -printf '%h/cmdline\n%h/environ\n' 2>/dev/null |
        xargs -r grep -laF -e "$ROOT/" 2>/dev/null | cut -d / -f 3 | sort -u
    }
    mounts() { awk -v root="$ROOT/" 'index($2, root) == 1 { print $2 }' /proc/self/mounts | tac; }
    fuse() { awk -v root="$ROOT/" 'index($2, root) == 1 && $3 ~ /^fuse/' /proc/self/mounts; }
    failed=0
    for pid in $(daemons); do kill -CONT $pid; kill -TERM $pid; done 2>/dev/null
    end=$((SECONDS + 60))
    until [ -z "$(daemons)" ] || [ $SECONDS -ge $end ]; do sleep 0.1; done
    for pid in $(daemons); do
      echo "daemon $pid did not stop on SIGTERM"; failed=1
      for thread in /proc/$pid/task/*; do
        echo "$(cut -d ' ' -f 2,3 "$thread/stat") in $(cat "$thread/wchan")"
      done 2>/dev/null | sort | uniq -c
      state=$(tr '\0' '\n' <"/proc/$pid/cmdline" | grep -A1 -x -e --state | tail -1)
      tail -n 5 "$state/daemon.log"
      kill -KILL $pid
    done
    if [ ! -e "$ROOT/work/killed" ] && [ -n "$(fuse)" ]; then
      echo "left mounted: $(fuse)"; failed=1
    fi
    for mountpoint in $(mounts); do umount -l "$mountpoint" || fusermount3 -uz "$mountpoint"; done
    # An ordinary user cannot remove what a test left in a directory without write permission.
    [ "$(id -u)" = 0 ] || find "$ROOT" -xdev -type d ! -perm -u=rwx -exec chmod u+rwx {} \;
    rm -rf --one-file-system "$ROOT" || failed=1
    exit $failed
    """#
}

extension TestAccount {
  /// Where the program is: beside the test bundle, or what `UBIQUITYFS_BINARY` names.
  static let binaryDirectory: String = {
    if let path = ProcessInfo.processInfo.environment["UBIQUITYFS_BINARY"] {
      return URL(fileURLWithPath: path).deletingLastPathComponent().path
    }
    let test = URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath()
    return test.deletingLastPathComponent().path
  }()

  /// The package's own directory, or a copy of it that `UBIQUITYFS_SOURCES` names.
  static let sourceRoot: String =
    ProcessInfo.processInfo.environment["UBIQUITYFS_SOURCES"]
    ?? URL(fileURLWithPath: #filePath).resolvingSymlinksInPath()
    .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent().path

  static let isRoot = geteuid() == 0
}

/// Gives `body` an account of its own and takes everything down after it, whether it fails or not.
func withAccount(_ body: (TestAccount) async throws -> Void) async throws {
  let account = try TestAccount()
  do {
    try await body(account)
  } catch let failure as CommandFailure {
    _ = failure  // already recorded where the script stands
    await account.close()
    return
  } catch {
    await account.close()
    throw error
  }
  await account.close()
}
