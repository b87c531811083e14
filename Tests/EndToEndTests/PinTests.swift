import Testing

/// What is to be kept local, while programs read it.
extension EndToEnd {
  @Suite struct PinTests {
    @Test("a pin, a policy or a download of a file that a read is downloading brings all of it")
    func pinDuringARead() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          """
          ways='command attribute policy download downloadAttribute none'
          for way in $ways; do
            head -c 12000000 /dev/urandom > $way
            mkdir "$A/$way"; cp $way "$A/$way/file"
          done
          synced a
          on a evict "$A"
          on a limit --down 64KiB/s --quiet
          readers=()
          for way in $ways; do
            head -c 1000000 "$A/$way/file" > read-$way & readers+=($!)
          done
          is_read() { [ "$(attribute isDownloading "$A/$1/file")" = 1 ]; }
          for way in $ways; do until_true 20 is_read $way; done
          on a pin "$A/command/file"
          setfattr -n user.ubiquity.pin -v 1 "$A/attribute/file"
          on a policy "$A/policy" downloadEagerlyAndKeepDownloaded
          on a download --no-wait "$A/download/file"
          setfattr -n user.ubiquity.download -v 1 "$A/downloadAttribute/file"
          # The reads are still waiting.
          for reader in "${readers[@]}"; do kill -0 $reader; done
          on a limit --down off --quiet
          for reader in "${readers[@]}"; do wait $reader; done
          # A read alone does not bring all of it: twice what it read, and the rest of a chunk.
          cmp -n 1000000 none read-none
          same "$(attribute downloadingStatus "$A/none/file")" notDownloaded
          ways=${ways% none}
          is_local() { [ "$(attribute localBytes "$A/$1/file")" = 12000000 ]; }
          is_current() { [ "$(attribute downloadingStatus "$A/$1/file")" = current ]; }
          for way in $ways; do
            until_true 60 is_local $way
            cmp -n 1000000 $way read-$way
            cmp $way "$A/$way/file"
            # It is current once the last bytes are durable.
            until_true 20 is_current $way
          done
          for way in command attribute; do
            same "$(attribute isPinned "$A/$way/file")" 1
            exits 5 on a evict "$A/$way/file"
          done
          for way in policy download downloadAttribute; do
            same "$(attribute isPinned "$A/$way/file")" 0
            until_true 20 evicts "$A/$way/file"
          done
          """)
      }
    }
  }
}
