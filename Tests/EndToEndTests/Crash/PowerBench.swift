import Foundation
import Testing

/// A device whose state directory is on a disk that remembers its writes.
final class PowerBench: Sendable {
  /// Before which record, with which part of what was not flushed, and how many operations had
  /// returned by then.
  struct Cut: Sendable, CustomStringConvertible {
    let record: Int
    let seed: Int
    let done: Int
    var roundTrip = false

    var description: String { "record \(record), seed \(seed)" }
  }

  let crash: CrashBench

  /// The scripts of `CrashBench` know the device as `a`.
  private static let prelude = #"""
    BASE=$ROOT/base.img; RECORDER=$ROOT/recorder
    # mount_disk IMAGE [OPTIONS]
    mount_disk() { mount -t ext4 -o "loop,${2:-defaults}" "$1" "$ROOT/a"; }
    # What used the disk lets go of it a moment after its end.
    unmount_disk() { until_true 20 umount "$ROOT/a" 2>/dev/null; }
    stop_recorder() {
      until_true 20 umount "$RECORDER" 2>/dev/null
      wait "$recorder"
    }
    prelude_end=$LINENO

    """#

  init(_ account: TestAccount) async throws {
    crash = try await CrashBench(account)
    account.know("a")
    try await script(
      """
      truncate -s 96M "$BASE"
      mkfs.ext4 -q -F -J size=4 -E lazy_itable_init=0,lazy_journal_init=0,nodiscard "$BASE"
      mkdir "$ROOT/a" "$RECORDER" "$ROOT/template"
      mount_disk "$BASE"
      on a account sign-in --backend "file://$CLOUD" --device-name a
      mkdir "$A_MOUNT"
      on a mount "$CONTAINER" "$A_MOUNT"
      cat > fixture <<'END'
      \(Workload.fixture.lines.joined(separator: "\n"))
      END
      driver run fixture "$A" "$WORK/report"
      synced a
      on a evict "$A/far"
      # The backend is to be as it was then, whatever the disk goes back to.
      on a offline on
      stop_daemon
      unmount_disk
      cp -a "$CLOUD" "$ROOT/template"
      """)
  }

  @discardableResult
  private func script(_ text: String) async throws -> String {
    try await crash.script(Self.prelude + text)
  }

  private func start(_ workload: Workload, fault: String) -> String {
    """
    cat > lines <<'END'
    \(workload.lines.joined(separator: "\n"))
    END
    rm -rf report "$CLOUD"; : > report
    cp -a "$ROOT/template/ubiquityfs-cloud" "$ROOT"
    start() {
      \(workload.syncs ? #"rm -f "$ROOT/a/offline""# : ":")
      UBIQUITYFS_FAULT='\(fault)' timeout 30 env UBIQUITYFS_STATE="$ROOT/a" \
        ubiquityfs mount "$CONTAINER" "$A_MOUNT" >&2
    }
    """
  }

  /// How often each fault point is reached.
  func points(_ workload: Workload) async throws -> [String: Int] {
    let output = try await script(
      """
      \(start(workload, fault: "list:\(crash.account.root)/work/points"))
      rm -f points; cp "$BASE" copy.img
      mount_disk "$WORK/copy.img"
      start
      UBIQUITYFS_STATE=$ROOT/a timeout 60 driver run lines "$A" "$WORK/report" >&2
      end_daemon
      unmount_disk
      sort points
      """)
    return output.split(separator: "\n").reduce(into: [:]) { counts, line in
      counts[line.split(separator: " ").last.map(String.init) ?? "", default: 0] += 1
    }
  }

  /// Runs the workload on a recorded disk and gives the cuts to be made, the last ones at the end.
  /// `isBusy`: the kernel writes back all the time meanwhile, so that also what nobody synchronised
  /// is on the disk, or a part of it.
  func record(_ workload: Workload, fault: String, isBusy: Bool) async throws -> [Cut] {
    let output = try await script(
      """
      \(start(workload, fault: fault))
      disk serve "$BASE" "$WORK/log" "$RECORDER" >disk.out 2>&1 & recorder=$!
      until_true 20 test -e "$RECORDER/disk"
      # Nothing but what is synchronised is to go to the disk by itself.
      mount_disk "$RECORDER/disk" commit=300
      if \(isBusy); then
        (while [ -e report ]; do sync -f "$ROOT/a/."; sleep 0.01; done) & busy=$!
      fi
      if start; then
        printf start > "$RECORDER/mark"
        UBIQUITYFS_STATE=$ROOT/a timeout 60 driver run lines "$A" "$WORK/report" "$RECORDER/mark" \
          >&2 || true
      fi
      printf end > "$RECORDER/mark"
      end_daemon
      cp report reported; rm report
      if \(isBusy); then wait $busy; fi
      unmount_disk
      stop_recorder
      rm -rf "$ROOT/template/now"; cp -a "$CLOUD" "$ROOT/template/now"
      disk count log
      """)
    return Self.cuts(output)
  }

  private static func cuts(_ output: String) -> [Cut] {
    var result: [Cut] = []
    var done = 0
    var hasStarted = false
    for line in output.split(separator: "\n") {
      let word = line.split(separator: " ")
      guard word.count > 1, let record = Int(word[0]) else { continue }
      switch (word[1], word.last) {
      case ("mark", "start"): hasStarted = true
      case ("mark", "end"):
        // The last three: `suffix` of these is what a killed run is cut at.
        return result + [0, 1, record + 2].map { Cut(record: record, seed: $0, done: done) }
      case ("mark", _): done += 1
      case ("flush", _):
        guard hasStarted else { continue }
        result.append(Cut(record: record, seed: 1, done: done))
        result.append(Cut(record: record, seed: record + 2, done: done))
      default: break
      }
    }
    return result
  }

  /// Makes the disk that the cut leaves, starts the daemon on it and looks.
  func cut(_ cut: Cut) async throws -> CrashBench.Outcome {
    let output = try await script(
      """
      rm -rf "$CLOUD"; cp -a "$ROOT/template/now" "$CLOUD"
      disk cut "$BASE" log \(cut.record) \(cut.seed) cut.img
      mount_disk "$WORK/cut.img"
      rm -f "$ROOT/a/offline"
      on a mount "$CONTAINER" "$A_MOUNT" >&2
      look
      \(cut.roundTrip ? CrashBench.roundTrip : "")
      end_daemon
      unmount_disk
      """)
    return CrashBench.outcome(output)
  }
}
