import Foundation
import Testing

/// Random sequences of system calls on a mount and on a native directory, call by call.
/// `Tests/OperationRunner` does them; what it does not compare, and why, stands with its
/// `Comparison`.
extension EndToEnd {
  @Suite(.enabled(if: TestAccount.isRoot)) struct RandomSequenceTests {
    /// For all to be shown, the native directory is mounted with what every mount has.
    private static let prepare = """
      RUNNER='\(runner)'
      chmod 755 "$ROOT"
      mkdir "$WORK/native"
      mount --bind "$WORK/native" "$WORK/native"
      mount -o remount,bind,nosuid,nodev,noatime "$WORK/native"
      on a offline on
      sequences() { "$RUNNER" "$@"; }

      """

    /// Beside the tests, wherever the program is.
    private static let runner = URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath()
      .deletingLastPathComponent().appendingPathComponent("OperationRunner").path

    private static func variable(_ name: String) -> Int? {
      ProcessInfo.processInfo.environment[name].flatMap { Int($0) }
    }

    @Test func sequencesGoAsOnANativeDirectory() async throws {
      try await withAccount { account in
        try await account.device("a", mountOptions: "allow_other,default_permissions")
        try await account.script(
          Self.prepare + """
            sequences "$WORK/native" "$A" 1 2000
            # The same after a new start, when the kernel remembers nothing.
            on a unmount "$A_MOUNT"
            on a mount "$CONTAINER" "$A_MOUNT" -o allow_other,default_permissions
            MODEL_COMPARE=1 sequences "$WORK/native" "$A" 1 2000
            """, timeout: 1200)
      }
    }

    /// `MODEL_SEED=n swift test --filter replaysOneSequence` tells a sequence call by call.
    @Test(.enabled(if: variable("MODEL_SEED") != nil))
    func replaysOneSequenceOnAMount() async throws {
      try await withAccount { account in
        try await account.device("a", mountOptions: "allow_other,default_permissions")
        let seed = Self.variable("MODEL_SEED") ?? 1
        print(
          try await account.script(
            Self.prepare + #"MODEL_TRACE=1 sequences "$WORK/native" "$A" \#(seed) 1"#))
      }
    }

    /// `make soak-model`.
    @Test(.enabled(if: variable("MODEL_MINUTES") != nil))
    func sequencesGoOnForMinutesOnAMount() async throws {
      try await withAccount { account in
        try await account.device("a", mountOptions: "allow_other,default_permissions")
        let minutes = Self.variable("MODEL_MINUTES") ?? 1
        print(
          try await account.script(
            Self.prepare
              + #"sequences "$WORK/native" "$A" "$(date +%s)000000" 0 \#(minutes)"#,
            timeout: minutes * 60 + 600))
      }
    }
  }
}
