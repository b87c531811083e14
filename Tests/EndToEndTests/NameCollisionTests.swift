import Testing

/// Names that differ in case or Unicode form alone. Source: iCloud Design Guide, on document names.
extension EndToEnd {
  @Suite struct NameCollisionTests {
    @Test func bothAreKeptAndMarked() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          """
          on a offline on; on b offline on
          echo 'of a' > "$A/Report.txt"
          echo 'of b' > "$B/report.TXT"
          echo alone > "$A/alone"
          same "$(attribute nameCollision "$A/Report.txt")" 0
          on a offline off; on b offline off
          synced a b a b
          for side in "$A" "$B"; do
            same "$(cat "$side/Report.txt")" 'of a'
            same "$(cat "$side/report.TXT")" 'of b'
            same "$(attribute nameCollision "$side/Report.txt")" 1
            same "$(attribute nameCollision "$side/report.TXT")" 1
            same "$(attribute nameCollision "$side/alone")" 0
          done
          on a status --json "$A/Report.txt" | grep '"nameCollision": *true' > /dev/null
          rm "$B/report.TXT"
          synced b a
          same "$(attribute nameCollision "$A/Report.txt")" 0
          """)
      }
    }

    @Test func aMountCanFoldCase() async throws {
      try await withAccount { account in
        try await account.device("a", mountOptions: "casefold")
        try await account.device("b")
        try await account.script(
          """
          mkdir "$A/Letters"
          echo one > "$A/LETTERS/First.txt"
          same "$(cat "$A/letters/first.TXT")" one
          same "$(ls "$A/lEtTeRs")" First.txt
          not mkdir "$A/letters"
          echo two > "$A/letters/FIRST.txt"
          same "$(cat "$A/Letters/First.txt")" two
          # Of another device, after its name was looked for in vain.
          not test -e "$A/letters/SECOND.txt"
          synced a b
          echo three > "$B/Letters/second.txt"
          synced b a
          same "$(cat "$A/letters/SECOND.txt")" three
          mv "$B/Letters/second.txt" "$B/Letters/third.txt"
          synced b a
          not test -e "$A/letters/SECOND.txt"
          same "$(cat "$A/letters/THIRD.TXT")" three
          rm "$A/LETTERS/first.TXT"
          same "$(ls "$A/Letters")" third.txt
          git init -q "$A/repository"
          same "$(git -C "$A/repository" config core.ignorecase)" true
          """)
      }
    }
  }
}
