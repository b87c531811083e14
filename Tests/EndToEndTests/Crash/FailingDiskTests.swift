import Foundation
import Testing

/// The disk below refuses: the operation that met it fails with that errno, everything else goes
/// on.
extension EndToEnd {
  @Suite struct FailingDiskTests {
    /// A library that is loaded into the daemon makes the Nth of its calls that change the disk
    /// fail once, those of SQLite and libfuse included, for every N.
    @Test(arguments: ["ENOSPC", "EIO"]) func aCallThatFailsHarmsNothingElse(_ name: String)
      async throws
    {
      let code = name == "EIO" ? EIO : ENOSPC
      try await withAccount { account in
        let bench = try await CrashBench(account)
        try await bench.makeTemplate()
        let chosen = Workload.all.filter { Self.workloads.contains($0.name) }
        let workloads = CrashTests.isWhole ? chosen : CrashTests.sample(chosen, 2)
        var calls = 0
        var runs = 0
        var told = 0
        var harms = 0
        for workload in workloads {
          let counted = try await bench.fail(workload, at: 0, code)
          calls += counted.last - counted.first
          var places = Array((counted.first + 1)...counted.last)
          if !CrashTests.isWhole { places = CrashTests.sample(places, 4) }
          for place in places {
            let outcome = try await bench.fail(workload, at: place, code)
            runs += 1
            told += outcome.results.contains(Int(code)) ? 1 : 0
            guard let harm = outcome.harm(code) else { continue }
            harms += 1
            Issue.record("\(workload), call \(place) is \(name) (\(outcome.call)): \(harm)")
          }
        }
        print(
          """
          failing disk figures: \(name): \(workloads.count) workloads, \(calls) calls that can fail, \
          \(runs) runs, \(told) where a program was told, \(harms) harms
          """)
      }
    }

    /// The same by the program's own fault points, each of which is a call that can fail.
    @Test func aCallThatIsToldToFailDoesSo() async throws {
      try await withAccount { account in
        let bench = try await CrashBench(account)
        try await bench.makeTemplate()
        let workload = Workload.all.first { $0.name == "create" }!
        let list = account.root + "/work/points"
        _ = try await bench.fail(Workload("nothing", "read old"), at: 0, EIO, fault: "list:\(list)")
        let reached = String(
          decoding: FileManager.default.contents(atPath: list + ".mounted") ?? Data(),
          as: UTF8.self)
        for point in ["file.create", "file.sync"] {
          let before = reached.split(separator: "\n").count { $0 == "call \(point)" }
          let outcome = try await bench.fail(
            workload, at: 0, EIO, fault: "\(point):\(before + 1):errno=EIO")
          let harm = outcome.harm(EIO)
          #expect(harm == nil, "\(point): \(harm ?? "")")
        }
      }
    }

    private static let workloads: Set<String> = [
      "create", "save", "append", "directories", "remove", "truncate", "overwrite", "links",
      "allocate", "attributes",
    ]

    /// ext4, small, filled through the mount and from beside it, then freed.
    @Test(.enabled(if: TestAccount.isRoot)) func aFullExt4RefusesAndGoesOn() async throws {
      try await withAccount { account in
        account.know("a")
        try await account.script(
          """
          truncate -s 40M image
          mkfs.ext4 -q -F -J size=4 image
          mkdir "$ROOT/small"; mount -o loop image "$ROOT/small"
          on small/state account sign-in --backend "file://$CLOUD" --device-name small
          mkdir m
          on small/state mount "$CONTAINER" m
          D=m/Documents
          echo first > $D/first; echo second > $D/second
          on small/state sync --wait --timeout 60
          on small/state offline on
          for round in 1 2; do
            refused 'no space left' dd if=/dev/urandom of=$D/big bs=65536 count=2000
            # Not a byte is left for anything else either.
            dd if=/dev/zero of="$ROOT/small/fill" bs=4096 2>/dev/null || true
            same "$(cat $D/first $D/second | tr '\\n' ' ')" 'first second '
            refused 'no space left' dd if=/dev/zero of=$D/more bs=65536 count=1 conv=fsync
            refused 'no space left' dd if=/dev/zero of=$D/first bs=65536 seek=1 count=160 conv=notrunc
            same "$(head -c 6 $D/first)" first
            ls -l $D >&2
            # What takes nothing is never refused.
            rm -f $D/big $D/more "$ROOT/small/fill"
            freed() { dd if=/dev/zero of=$D/again bs=65536 count=16 conv=fsync; }
            until_true 30 freed
            echo first > $D/first
            mkdir $D/dir$round
            mv $D/again $D/dir$round/kept
          done
          on small/state offline off
          on small/state sync --wait --timeout 60
          on small/state fsck
          same "$(cat $D/first $D/second | tr '\\n' ' ')" 'first second '
          same "$(stat -c %s $D/dir1/kept $D/dir2/kept | tr '\\n' ' ')" '1048576 1048576 '
          on small/state unmount m
          """)
      }
    }
  }
}

extension CrashBench {
  struct FailureOutcome: Sendable {
    /// The calls before the workload began, and all.
    var first: Int
    var last: Int
    var results: [Int]
    /// What the call was that failed.
    var call: String
    /// With the failed operations not done, and done.
    var without: TreeState
    var with: TreeState
    var live: TreeState
    var after: TreeState
    var fsck: String
    var isAlive: Bool

    func harm(_ code: Int32) -> String? {
      guard isAlive else { return "the mount does not go on" }
      // What follows a failed open has no descriptor; what follows a failed make finds nothing.
      let allowed = [0, Int(code), Int(EBADF), Int(ENOENT)]
      if let other = results.first(where: { !allowed.contains($0) }) { return "errno \(other)" }
      guard live.all == without.all || live.all == with.all else {
        return "shows:\n" + live.differences(from: without)
      }
      guard after.all == live.all else {
        return "after a restart:\n" + after.differences(from: live)
      }
      return fsck.contains("Problems: 0") ? nil : "fsck: \(fsck)"
    }
  }

  /// Runs the workload to its end while the `place`th call fails, then looks, stops the daemon in
  /// good order, and looks again.
  func fail(_ workload: Workload, at place: Int, _ code: Int32, fault: String = "")
    async throws -> FailureOutcome
  {
    let output = try await script(
      """
      end_daemon
      rm -rf "$ROOT/a" "$CLOUD" report calls
      cp -a "$ROOT/template/a" "$ROOT/template/ubiquityfs-cloud" "$ROOT"
      # What is sent in the background would be other calls every time.
      : > "$ROOT/a/offline"
      cat > lines <<'END'
      \(workload.lines.joined(separator: "\n"))
      END
      cat > fixture <<'END'
      \(Workload.fixture.lines.joined(separator: "\n"))
      END
      : > report; : > calls
      UBIQUITYFS_FAULT='\(fault)' \
        FAIL_BELOW=$ROOT/a/containers FAIL_AT=\(place) FAIL_WITH=\(code) FAIL_LOG=$WORK/calls \
        LD_PRELOAD=$ROOT/tools/failing.so UBIQUITYFS_STATE=$ROOT/a \
        ubiquityfs mount "$CONTAINER" "$A_MOUNT" >&2
      if [ -e points ]; then cp points points.mounted; fi
      echo "== first"; wc -l < calls
      timeout 60 driver run lines "$A" "$WORK/report" >&2 || true
      echo "== last"; wc -l < calls
      echo "== report"; cat report
      on a offline off
      echo "== alive"
      # Where the background made fewer calls this time, the one that fails is the first of these.
      for file in alive1 alive2; do : > "$A/$file" || grep -q FAILS calls; rm -f "$A/$file"; done
      if (: > "$A/alive" && rm "$A/alive"); then echo yes; fi
      echo "== live"; driver show "$A"
      stop_daemon
      echo "== call"; grep FAILS calls | sed "s,$ROOT/a/containers/$CONTAINER/,," || true
      on a mount "$CONTAINER" "$A_MOUNT" >&2
      echo "== after"; driver show "$A"
      echo "== fsck"; on a fsck || true
      end_daemon
      # What a native directory is like after the operations that were done, and after all that were
      # tried.
      paste -d ' ' report lines | awk '$2 == 0 { $1 = $2 = ""; print }' > done
      cat fixture done > all; rm -rf native; mkdir native
      echo "== without"; driver model all native | awk '/^== / { text = ""; next } { text = text $0 "\\n" }
        END { printf "%s", text }'
      cat fixture lines > all; rm -rf native; mkdir native
      echo "== with"; driver model all native | awk '/^== / { text = ""; next } { text = text $0 "\\n" }
        END { printf "%s", text }'
      """)
    var parts: [String: [Substring]] = [:]
    var name = ""
    for line in output.split(separator: "\n") {
      if line.hasPrefix("== ") {
        name = String(line.dropFirst(3))
      } else {
        parts[name, default: []].append(line)
      }
    }
    func number(_ part: String) -> Int { parts[part]?.first.flatMap { Int($0) } ?? 0 }
    func tree(_ part: String) -> TreeState { TreeState(parts[part] ?? []) }
    return FailureOutcome(
      first: number("first"), last: number("last"),
      results: (parts["report"] ?? []).compactMap {
        $0.split(separator: " ").last.flatMap { Int($0) }
      },
      call: parts["call"]?.joined() ?? "none", without: tree("without"), with: tree("with"),
      live: tree("live"), after: tree("after"), fsck: parts["fsck"]?.joined(separator: "\n") ?? "",
      isAlive: parts["alive"] != nil)
  }
}
