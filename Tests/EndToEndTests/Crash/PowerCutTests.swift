import Foundation
import Testing

/// The power fails, and the disk has kept of what was not flushed what it liked.
///
/// The state directory is on an ext4 on a loop device on `disk`, which writes down every write and
/// every flush of the block layer. From that record a disk is made for each flush and for the end,
/// with all, none or a random part of what was written since the flush before; ext4 replays its own
/// journal, the daemon starts, and what it shows is measured by the model.
extension EndToEnd {
  @Suite struct PowerCutTests {
    @Test(.enabled(if: TestAccount.isRoot)) func whatWasSyncedOutlivesAPowerCut() async throws {
      try await withAccount { account in
        let bench = try await PowerBench(account)
        // What talks to the backend is cut when it is killed: the backend has no past to go back
        // to.
        let all = Workload.all.filter { !$0.syncs }
        let workloads = CrashTests.isWhole ? all : CrashTests.sample(all, 5)
        var cuts = 0
        var losses = 0
        for workload in workloads {
          let model = try await bench.crash.model(workload)
          for isBusy in CrashTests.isWhole ? [false, true] : [false] {
            var planned = try await bench.record(workload, fault: "", isBusy: isBusy)
            if !CrashTests.isWhole { planned = CrashTests.sample(planned, 4) }
            for var cut in planned {
              cuts += 1
              cut.roundTrip = cuts % 4 == 0 || workload.name == "overwrite"
              let outcome: CrashBench.Outcome
              do { outcome = try await bench.cut(cut) } catch {
                print("\(workload), power cut at \(cut): does not work")
                throw error
              }
              guard let loss = Self.judge(outcome, model, done: cut.done) else { continue }
              losses += 1
              Issue.record("\(workload), power cut at \(cut): \(loss)")
            }
          }
        }
        print(
          "power cut figures: \(workloads.count) workloads, \(cuts) power cuts, \(losses) losses")
        #expect(cuts >= workloads.count)
      }
    }

    @Test(.enabled(if: TestAccount.isRoot)) func aPowerCutAtAFaultPointLosesNothing() async throws {
      try await withAccount { account in
        let bench = try await PowerBench(account)
        var kills: [(Workload, String)] = []
        let workloads = Workload.all.filter(\.syncs)
        let start = try await bench.points(Workload("nothing", ""))
        for workload in workloads {
          for (point, count) in try await bench.points(workload).sorted(by: { $0.key < $1.key }) {
            let before = start[point] ?? 0
            guard count > before else { continue }
            for next in 1...min(count - before, 2) {
              kills.append((workload, "\(point):\(before + next)"))
            }
          }
        }
        if !CrashTests.isWhole { kills = CrashTests.sample(kills, 8) }
        var cuts = 0
        var losses = 0
        for (workload, fault) in kills {
          let model = try await bench.crash.model(workload)
          let planned = try await bench.record(workload, fault: fault, isBusy: false)
          for var cut in planned.suffix(CrashTests.isWhole ? 3 : 1) {
            cut.roundTrip = true
            cuts += 1
            let outcome: CrashBench.Outcome
            do { outcome = try await bench.cut(cut) } catch {
              print("\(workload), killed at \(fault), power cut at \(cut): does not work")
              throw error
            }
            guard let loss = Self.judge(outcome, model, done: cut.done) else { continue }
            losses += 1
            Issue.record("\(workload), killed at \(fault), power cut at \(cut): \(loss)")
          }
        }
        print(
          "power cut figures: \(kills.count) fault points reached, \(cuts) power cuts, \(losses) losses"
        )
        #expect(cuts >= kills.count)
      }
    }

    static func judge(_ outcome: CrashBench.Outcome, _ model: Model, done: Int) -> String? {
      if let loss = model.judgePowerCut(outcome.shown, done: done) { return loss }
      guard outcome.fsck.contains("Problems: 0") else { return "fsck: \(outcome.fsck)" }
      if let again = outcome.again {
        // What was uploaded and then lost here for want of an fsync comes back with the log.
        if again.all != outcome.shown.all, let loss = model.judgePowerCut(again, done: done) {
          return "read back from the backend: " + loss
        }
        guard outcome.fsckAgain.contains("Problems: 0") else { return "fsck: \(outcome.fsckAgain)" }
      }
      return nil
    }
  }
}
