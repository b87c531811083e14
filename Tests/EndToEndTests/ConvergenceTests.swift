import Testing

/// Random work on several devices at a time ends in equal trees.
extension EndToEnd {
  @Suite struct ConvergenceTests {
    /// `mess SEED COUNT DIRECTORY`: that many random operations, among few names so that they meet.
    private static let mess = #"""
      mess() {
        local RANDOM=$1 count=$2 n
        cd "$3"
        local names=(a b c d e f) places=(. x y x/z)
        one() { echo "${places[RANDOM % 4]}/${names[RANDOM % 6]}"; }
        for n in $(seq "$count"); do
          case $((RANDOM % 12)) in
            0|1|2|3) echo "$1 $n $RANDOM" > "$(one)" ;;
            4) mkdir -p "${places[RANDOM % 4]}" ;;
            5|6) mv -T "$(one)" "$(one)" ;;
            7) rm -f "$(one)" ;;
            8) mv -T "${places[1 + RANDOM % 3]}" "${places[1 + RANDOM % 3]}" ;;
            9) echo "$1 $n more" >> "$(one)" ;;
            10) ln "$(one)" "$(one)" ;;
            11) chmod 6$((RANDOM % 8))$((RANDOM % 8)) "$(one)" ;;
          esac 2>/dev/null || true
        done
      }
      # contents DIRECTORY: every file's path, attributes and bytes
      contents() { listing "$1"; (cd "$1" && find . -type f -exec sha256sum {} + | sort -k2); }

      """#

    @Test(arguments: [1, 2, 3]) func offlineDevicesMeet(seed: Int) async throws {
      try await withAccount { account in
        for device in ["a", "b", "c"] { try await account.device(device) }
        try await account.script(
          Self.mess + """
            for round in 1 2; do
              for device in a b c; do on $device offline on; done
              (mess \(seed)1$round 120 "$A"); (mess \(seed)2$round 120 "$B"); (mess \(seed)3$round 120 "$C")
              for device in a b c; do on $device offline off; done
              synced a b c a b c a
              contents "$A" > of-a; contents "$B" > of-b; contents "$C" > of-c
              diff of-a of-b
              diff of-a of-c
            done
            on a fsck; on b fsck; on c fsck
            """, timeout: 300)
        for device in ["a", "b", "c"] {
          #expect(try await account.status(device).containers.first?.errors == [])
        }
      }
    }

    @Test func devicesAtWorkTogetherMeet() async throws {
      try await withAccount { account in
        for device in ["a", "b"] { try await account.device(device) }
        try await account.script(
          Self.mess + """
            (mess 7 400 "$A") & first=$!
            (mess 8 400 "$B") & second=$!
            wait $first
            wait $second
            synced a b a b
            contents "$A" > of-a; contents "$B" > of-b
            diff of-a of-b
            on a fsck; on b fsck
            """, timeout: 300)
      }
    }
  }
}
