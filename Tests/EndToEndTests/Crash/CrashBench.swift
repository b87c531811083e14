import Foundation
import Testing

/// An account whose device `a` is put back to the same state before each crash, and the tools.
///
/// The state is made once: the fixture, uploaded, `far` evicted, the daemon stopped in good order.
final class CrashBench: Sendable {
  let account: TestAccount

  init(_ account: TestAccount) async throws {
    self.account = account
    account.know("a")
    try await account.script(
      """
      tools=$SOURCES/Tests/CrashTools
      mkdir "$ROOT/tools"
      cc -O1 -o "$ROOT/tools/driver" "$tools/driver.c"
      cc -O1 -fPIC -shared -o "$ROOT/tools/failing.so" "$tools/failing.c" -ldl
      cc -O1 -D_FILE_OFFSET_BITS=64 -o "$ROOT/tools/disk" "$tools/disk.c" \
        $(pkg-config --cflags --libs fuse3)
      touch killed
      """)
  }

  /// Found defined by every script here.
  static let prelude = #"""
    PATH=$ROOT/tools:$PATH
    # The process has ended, waited for or not, or is another by now. One that is about to end has no
    # program any more, but still its files.
    is_gone() {
      local state program threads
      read -r _ _ state _ 2>/dev/null <"/proc/$1/stat" || return 0
      threads=(/proc/"$1"/task/*)
      case $state in Z | X) [ "${#threads[@]}" -le 1 ]; return ;; esac
      program=$(readlink "/proc/$1/exe") || return 1
      [ "$program" != "$(command -v ubiquityfs)" ]
    }
    # With short pauses: this runs very often.
    wait_until_gone() {
      local end=$((SECONDS + 60))
      until is_gone "$1"; do
        [ $SECONDS -lt $end ] || { echo "process $1 did not end within 60 s" >&2; return 1; }
        sleep 0.01
      done
    }
    # Whoever it is that serves the state directory, at once and without a word.
    end_daemon() {
      local pid
      pid=$(cat "$ROOT/a/daemon.lock" 2>/dev/null) || return 0
      if [ -n "$pid" ] && ! is_gone "$pid"; then
        kill -9 "$pid" || true
        wait_until_gone "$pid"
      fi
      umount -l "$A_MOUNT" 2>/dev/null || fusermount3 -uqz "$A_MOUNT" || true
    }
    stop_daemon() {
      local pid
      pid=$(cat "$ROOT/a/daemon.lock")
      kill -TERM "$pid"
      wait_until_gone "$pid"
    }
    look() {
      echo "== show"; timeout 30 driver show "$A"
      echo "== fsck"; on a fsck || true
    }
    prelude_end=$LINENO

    """#

  @discardableResult
  func script(
    _ text: String, timeout: Int = 120, sourceLocation: SourceLocation = #_sourceLocation
  ) async throws -> String {
    try await account.script(Self.prelude + text, timeout: timeout, sourceLocation: sourceLocation)
  }

  /// The state that every crash starts from.
  func makeTemplate() async throws {
    try await account.device("a")
    try await script(
      """
      cat > fixture <<'END'
      \(Workload.fixture.lines.joined(separator: "\n"))
      END
      driver run fixture "$A" "$WORK/report"
      synced a
      on a evict "$A/far"
      stop_daemon
      mkdir "$ROOT/template"
      cp -a "$ROOT/a" "$CLOUD" "$ROOT/template"
      """)
  }

  func model(_ workload: Workload) async throws -> Model {
    let lines = Workload.fixture.lines + workload.lines
    let shown = try await script(
      """
      rm -rf native; mkdir native
      cat > lines <<'END'
      \(lines.joined(separator: "\n"))
      END
      driver model lines native
      """)
    return Model(workload, shown: shown)
  }

  struct Outcome: Sendable {
    /// Operations of the workload that returned, each with 0 or its errno.
    var results: [Int]
    /// The daemon was dead when the workload had ended.
    var wasKilled: Bool
    var shown: TreeState
    var fsck: String
    /// After everything was sent, evicted and read again.
    var again: TreeState?
    var fsckAgain: String
    var output: String
  }

  /// Runs the workload on a fresh state with `fault` set, ends the daemon, starts it again and
  /// looks. With `roundTrip` all is then uploaded, evicted and downloaded.
  func crash(_ workload: Workload, fault: String, roundTrip: Bool) async throws -> Outcome {
    let output = try await script(
      """
      \(Self.runScript(workload, fault))
      end_daemon
      on a mount "$CONTAINER" "$A_MOUNT" >&2
      look
      \(roundTrip ? Self.roundTrip : "")
      end_daemon
      echo "== report"; cat report
      """)
    return Self.outcome(output)
  }

  private static func runScript(_ workload: Workload, _ fault: String) -> String {
    """
    end_daemon
    rm -rf "$ROOT/a" "$CLOUD" report
    cp -a "$ROOT/template/a" "$ROOT/template/ubiquityfs-cloud" "$ROOT"
    cat > lines <<'END'
    \(workload.lines.joined(separator: "\n"))
    END
    : > report
    if UBIQUITYFS_FAULT='\(fault)' timeout 30 env UBIQUITYFS_STATE="$ROOT/a" \
      ubiquityfs mount "$CONTAINER" "$A_MOUNT" >&2
    then UBIQUITYFS_STATE=$ROOT/a timeout 60 driver run lines "$A" "$WORK/report" >&2 || true; fi
    # Some points are reached a moment later, by what works in the background.
    for round in $(seq \(EndToEnd.CrashTests.isWhole ? 100 : 25)); do
      if is_gone "$(cat "$ROOT/a/daemon.lock")"; then echo "== killed"; break; fi
      \(fault.hasPrefix("list:") && !EndToEnd.CrashTests.isWhole ? "break" : "sleep 0.02")
    done

    """
  }

  /// Runs the workload on a fresh state with `fault` set.
  func run(_ workload: Workload, fault: String) async throws {
    try await script(Self.runScript(workload, fault) + "end_daemon")
  }

  static let roundTrip = """
    synced a
    on a evict "$A" >&2
    echo "== again"; timeout 60 driver show "$A"
    echo "== fsck-again"; on a fsck || true
    """

  static func outcome(_ output: String) -> Outcome {
    var parts: [String: [Substring]] = [:]
    var name = ""
    for line in output.split(separator: "\n") {
      if line.hasPrefix("== ") {
        name = String(line.dropFirst(3))
        parts[name] = []
      } else {
        parts[name, default: []].append(line)
      }
    }
    return Outcome(
      results: (parts["report"] ?? []).compactMap {
        $0.split(separator: " ").last.flatMap { Int($0) }
      },
      wasKilled: parts["killed"] != nil, shown: TreeState(parts["show"] ?? []),
      fsck: (parts["fsck"] ?? ["nothing"]).joined(separator: "\n"),
      again: parts["again"].map { TreeState($0) },
      fsckAgain: (parts["fsck-again"] ?? []).joined(separator: "\n"), output: output)
  }
}
