import Coordination
import Glibc
import MountDriver
import TestWaiting
import Testing

/// Many programs at once.
@Suite(.enabled(if: access("/dev/fuse", R_OK | W_OK) == 0))
struct LoadTests {
  /// Twice, so that parking places of the first time are used again.
  @Test(.timeLimit(.minutes(15)))
  func readersWaitInCrowdsAndAllAreServed() async throws {
    let mounted = try Mounted()
    try mounted.appear("far", size: 8 << 20)
    for round in 0..<3 {
      let fetcher = SlowFetcher(mounted.coordinator)
      mounted.coordinator.setFetcher(fetcher)
      async let readers = mounted.run(
        """
        for i in $(seq 60); do
          dd if=far iflag=direct bs=32K skip=$((64 * \(round) + i)) count=1 2>/dev/null | tr -d a | wc -c &
        done
        wait
        """)
      try await fetcher.waitUntilAsked()
      let others = try await mounted.run(
        """
        for i in $(seq 4); do
          (for j in $(seq 50); do echo $j > near-$i-$j; cat near-$i-$j; rm near-$i-$j; done | wc -l) &
        done
        wait
        """)
      #expect(others.output == "50\n50\n50\n50\n")
      fetcher.answer()
      let left = try await readers.output
      #expect(left == String(repeating: "0\n", count: 60))
    }
    try mounted.mount.unmount()
  }

  /// What is read is what was written, whatever else goes on.
  @Test(.timeLimit(.minutes(15)))
  func programsOnAllProcessorsDoNotMixUpTheirFiles() async throws {
    let mounted = try Mounted()
    let result = try await mounted.run(
      """
      for i in $(seq 8); do
        (
          mkdir d$i
          for j in $(seq 12); do
            head -c $((i * 4099 * j)) /dev/urandom > ../source-$i
            cp ../source-$i d$i/f$j || echo cp $i $j; sync d$i/f$j || echo sync $i $j; mv d$i/f$j d$i/g$j || echo mv $i $j
            dd if=d$i/g$j bs=64K iflag=direct 2>/dev/null | cmp - ../source-$i || echo cmp $i $j
            [ "$(stat -c %s d$i/g$j)" = "$(stat -c %s ../source-$i)" ] || echo stat $i $j $(stat -c %s d$i/g$j) $(stat -c %s ../source-$i)
          done
          rm -r d$i
        ) &
        workers="$workers $!"
      done
      for worker in $workers; do wait $worker; done
      ls
      """)
    #expect(result.status == 0, "\(result.output)")
    #expect(result.output == "Documents\n")
    try mounted.mount.unmount()
  }

  /// A signal ends a call that waits, and no other one.
  @Test(.timeLimit(.minutes(15)))
  func callsAreInterruptedOneByOne() async throws {
    let mounted = try Mounted()
    let fetcher = SlowFetcher(mounted.coordinator)
    mounted.coordinator.setFetcher(fetcher)
    try mounted.appear((0...20).map { "far\($0)" }, size: 1 << 20)
    async let patient = mounted.run(
      "dd if=far0 iflag=direct bs=64K skip=3 count=1 2>/dev/null | wc -c")
    try await fetcher.waitUntilAsked()
    let result = try await mounted.run(
      """
      for i in $(seq 20); do
        (timeout -s TERM 0.$((i % 5 + 1)) bash -c "echo x >> far$i" || echo $?) &
      done
      wait
      echo x > near; cat near
      """)
    #expect(result.output == String(repeating: "124\n", count: 20) + "x\n")
    fetcher.answer()
    let patience = try await patient.output
    #expect(patience == "65536\n")
    try await eventually("the mount is not busy") { try mounted.unmountedUnlessBusy() }
  }

  @Test(.timeLimit(.minutes(15)))
  func aMountIsTakenAwayUnderLoad() async throws {
    for _ in 0..<5 {
      let mounted = try Mounted()
      async let load = mounted.run(
        """
        touch begun
        for i in $(seq 8); do
          (while echo $i > f$i && cat f$i && mv f$i g$i && rm g$i && sync .; do :; done) > /dev/null 2>&1 &
        done
        wait
        """)
      try await eventually("the programs write files") {
        try await mounted.run("[ -e begun ] && [ -e f1 -o -e g1 ] && echo yes").output
          .contains("yes")
      }
      mounted.mount.detach()
      #expect(try await load.status == 0)
    }
  }
}
