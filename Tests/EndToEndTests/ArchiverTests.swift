import Foundation
import Testing

/// Every archiver, copier and backup program that looks for holes, on files of which nothing, a
/// part or all is local (`Tests/archivers/copies`). `make archivers` runs more of them.
extension EndToEnd {
  @Suite struct ArchiverTests {
    @Test("archivers, copiers and backup programs read no zeros for missing content")
    func copiesAreWhole() async throws {
      try await withAccount { account in
        try await account.device("a")
        let table = try await account.script(
          #"""
          # Text, which grep takes for binary where it finds a hole; of whole blocks, for qemu-img.
          head -c 3000000 /dev/urandom | base64 -w 76 > reference; truncate -s 3997696 reference
          sed -i -e "20000s/^....../needle/" -e "50s/^....../needle/" reference
          copies="$SOURCES/Tests/archivers/copies"
          for program in $("$copies" reference --list | cut -d " " -f 1); do
            for state in evicted partial local; do mkdir -p "$A/$state/$program"; done
          done
          for directory in "$A"/*/*; do cp reference "$directory/file"; done
          synced a
          mkdir run && cd run
          export PREPARE=$SOURCES/Tests/archivers/prepare
          "$copies" ../reference "$A/evicted" "$A/partial" "$A/local"
          """#, timeout: 300)
        print(table)
        let rows = table.split(separator: "\n")
        #expect(rows.count >= 3 * 20)
        #expect(rows.filter { !$0.hasSuffix(" equal") } == [])
      }
    }

    @Test("du of a tree of placeholders stays near 0, and localBytes says what is local")
    func placeholdersTakeNextToNothing() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          """
          mkdir "$A/d"
          for n in $(seq 20); do head -c 1000000 /dev/urandom > "$A/d/$n"; done
          synced a
          same "$(attribute localBytes "$A/d/1")" 1000000
          on a evict "$A/d"
          same "$(stat -c '%s %b' "$A/d/1")" '1000000 1'
          same "$(attribute localBytes "$A/d/1")" 0
          # A block each.
          [ "$(du -s --block-size=1 "$A/d" | cut -f1)" -le 20480 ]
          head -c 4096 "$A/d/1" > /dev/null
          part=$(attribute localBytes "$A/d/1")
          [ "$part" -ge 4096 ]
          attribute status "$A/d/1" | grep -q "\\"localBytes\\":$part[,}]"
          on a status --json "$A/d/1" | tr -d ' \\n' | grep -q "\\"localBytes\\":$part[,}]"
          : > "$A/empty"; synced a; until_true 20 evicts "$A/empty"
          same "$(stat -c '%s %b' "$A/empty")" '0 0'
          """)
      }
    }
  }
}
