import Testing

/// Large files on their way over a narrow link, and what goes on beside them.
extension EndToEnd {
  @Suite struct LargeUploadTests {
    private static let helpers = """
      # large FILE: of bytes that do not compress, more than the link takes in a minute
      large() { head -c 60000000 /dev/urandom > "$1"; }
      uploading() { on a status --json | tr -d ' \\n' | grep '"direction":"upload"' >/dev/null; }
      has() { [ -e "$1" ]; }
      # Another device may show a file from when it was made, before it was written.
      is_written() { [ -s "$1" ]; }
      lacks() { [ ! -e "$1" ]; }
      pid() { on "$1" status --json | tr -d ' \\n' | grep -o '"pid":[0-9]*' | head -1 | cut -d: -f2; }
      # The large content files of device a, with those that are open and have no name any more.
      blocks() {
        find "$ROOT/a" -path '*/content/*' -type f -size +10M
        find "/proc/$daemon/fd" -lname '*/content/*(deleted)' 2>/dev/null
      }
      free() { [ -z "$(blocks)" ]; }

      """

    @Test("small changes pass a large upload, in both directions, and names are at once elsewhere")
    func smallChangesPassALargeUpload() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          Self.helpers + """
            synced a b
            on a limit --up 1MB/s
            large "$A/large"
            until_true 20 uploading
            echo small > "$A/small"
            until_true 10 is_written "$B/small"
            same "$(timeout 10 cat "$B/small")" small
            mv "$A/small" "$A/renamed"
            until_true 10 lacks "$B/small"
            has "$B/renamed"
            echo other > "$B/other"
            until_true 10 is_written "$A/other"
            same "$(timeout 10 cat "$A/other")" other
            until_true 10 has "$B/large"
            same "$(attribute isUploaded "$A/large")" 0
            uploading
            exits 7 on a sync --wait --timeout 1
            on a limit --up off
            synced a b
            cmp "$A/large" "$B/large"
            """)
      }
    }

    @Test("a file that is removed, replaced or truncated stops uploading and frees its blocks")
    func aFileThatGoesFreesItsBlocks() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          Self.helpers + """
            synced a
            daemon=$(pid a)
            on a limit --up 1MB/s
            large "$A/large"
            until_true 20 uploading
            not free
            rm "$A/large"
            until_true 5 free
            large "$A/large"
            until_true 20 uploading
            echo new > "$A/draft"; mv "$A/draft" "$A/large"
            until_true 5 free
            large "$A/large"
            until_true 20 uploading
            : > "$A/large"
            truncated() { [ "$(find "$ROOT/a" -path '*/content/*' -type f -size +10M | wc -l)" = 0 ]; }
            until_true 5 truncated
            large "$A/large"
            until_true 20 uploading
            rm "$A/large"
            on a unmount "$A_MOUNT"
            until_true 5 free
            on a limit --up off
            on a sync --wait --timeout 60
            """)
      }
    }
  }
}
