import Testing

/// A device that removes most of a container asks first.
extension EndToEnd {
  @Suite struct DeletionTests {
    @Test func aMassDeletionIsConfirmedOrTakenBack() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          """
          files() { ls "$1/tree" | wc -l; }
          mkdir "$A/tree"
          for n in $(seq 300); do echo "content of $n" > "$A/tree/$n"; done
          before=$(listing "$A/tree")
          synced a b
          same "$(files "$B")" 300

          # On a busy machine some of the removals would go before `rm` ends.
          on a offline on
          rm -r "$A/tree"
          on a offline off
          exits 5 on a sync --wait --timeout 60
          refused 'paused.*300 of.*--confirm-deletions.*--restore-deletions' on a sync --wait
          on a status --json | grep '300 of its 300 items' > /dev/null
          on a log | grep '300 of its 300 items' > /dev/null
          on b sync --wait
          same "$(files "$B")" 300
          exits 2 on a sync --confirm-deletions --restore-deletions

          # What is under an old name by now is kept.
          mkdir "$A/tree"; echo mine > "$A/tree/7"
          on a sync --wait --timeout 60 --restore-deletions "$A"
          same "$(cat "$A/tree/7")" 'content of 7'
          same "$(cat "$A/tree/7 2")" mine
          same "$(stat -c %b "$A/tree/8")" 1
          same "$(cat "$A/tree/8")" 'content of 8'
          rm "$A/tree/7 2"
          synced a b
          same "$(cd "$A/tree" && find . -type f -printf '%p %s %m %T@\\n' | LC_ALL=C sort)" \\
            "$(cd "$B/tree" && find . -type f -printf '%p %s %m %T@\\n' | LC_ALL=C sort)"
          same "$(listing "$A/tree" | grep '^\\./')" "$(grep '^\\./' <<<"$before")"

          rm -r "$A/tree"
          exits 5 on a sync --wait --timeout 60
          on a sync --wait --timeout 60 --confirm-deletions "$A"
          on b sync --wait
          [ ! -e "$B/tree" ]
          """, timeout: 240)
        let errors = try await account.status("a").containers.first?.errors
        #expect(errors == [])
      }
    }

    @Test func theConfigurationSaysHowMuchIsRemovedWithoutAsking() async throws {
      try await withAccount { account in
        try await account.script(
          """
          mkdir "$XDG_CONFIG_HOME/ubiquityfs"
          printf 'sync:\\n  deletionShare: 0.25\\n  deletionMinimum: 5\\n' \\
            > "$XDG_CONFIG_HOME/ubiquityfs/config.yaml"
          """)
        try await account.device("a")
        try await account.script(
          """
          touch "$A/file "{1..17}
          synced a
          rm "$A/file "{1..5}
          synced a
          rm "$A/file 6"
          exits 5 on a sync --wait --timeout 60
          """)
      }
    }
  }
}
