import Testing

/// Apple's iCloud Design Guide, "Use Two Devices to Test Document Conflicts": each of its
/// procedures, by its heading, with shell programs as the app.
extension EndToEnd {
  @Suite struct GuideTestPlanTests {
    /// A document that both devices have open, as file descriptors 3 and 4.
    private let open = """
      echo draft > "$A/letter"; synced a b
      same "$(cat "$B/letter")" draft
      exec 3<"$A/letter" 4<"$B/letter"

      """

    /// On both devices `current` is the document and `other` the one version that lost; settled on
    /// the second, nothing of the conflict is left on either.
    private func meet(_ current: String, _ other: String) -> String {
      """
      synced a b a b
      for device in a b; do
        file=$([ $device = a ] && echo "$A/letter" || echo "$B/letter")
        same "$(cat "$file")" '\(current)'
        same "$(attribute hasUnresolvedConflicts "$file")" 1
        lost=$(on $device versions list "$file" | awk '$1 == "conflict" { print $2 }')
        same "$(on $device versions cat "$file" "$lost")" '\(other)'
      done
      on b versions resolve "$B/letter" --keep "$lost" \
        "$(on b versions list "$B/letter" | awk '$1 == "current" { print $2 }')"
      synced b a
      for files in "$A" "$B"; do
        same "$(attribute hasUnresolvedConflicts "$files/letter")" 0
        same "$(cat "$files/letter")" '\(current)'
        same "$(cat "$files/letter 2")" '\(other)'
      done
      """
    }

    @Test("To test document version conflicts with one device offline")
    func oneDeviceOffline() async throws {
      try await withTwoDevices { account in
        try await account.script(
          """
          \(open)
          on a offline on
          echo 'edited in the air' > "$A/letter"
          sleep 0.05
          echo 'edited on the ground' > "$B/letter"
          synced b
          on a offline off
          \(meet("edited on the ground", "edited in the air"))
          """)
      }
    }

    /// The edits end at the same time or one after the other, as do the flights.
    @Test(
      "To test document version conflicts with two devices offline",
      arguments: [false, true], [false, true])
    func bothDevicesOffline(editsTogether: Bool, landingTogether: Bool) async throws {
      try await withTwoDevices { account in
        let edits =
          editsTogether
          ? """
          echo 'of the first' > "$A/letter" & echo 'of the second' > "$B/letter" & wait
          touch -d '2030-01-01' "$B/letter"
          """
          : "echo 'of the first' > \"$A/letter\"; sleep 0.05; echo 'of the second' > \"$B/letter\""
        let landing =
          landingTogether
          ? "on a offline off & on b offline off & wait"
          : "on b offline off; synced b; sleep 0.2; on a offline off"
        try await account.script(
          """
          \(open)
          on a offline on; on b offline on
          \(edits)
          \(landing)
          \(meet("of the second", "of the first"))
          """)
      }
    }

    /// The old program writes one line, the new one a header before it, which the old one refuses.
    @Test("To test forward and backward compatibility of your document format")
    func twoFormats() async throws {
      try await withTwoDevices { account in
        try await account.script(
          """
          old_save() { echo "$2" > "$1"; }
          old_open() { ! grep -q '^format 2$' "$1" && cat "$1"; }
          new_save() { printf 'format 2\\n%s\\n' "$2" > "$1.new"; mv "$1.new" "$1"; }
          new_open() { tail -n 1 "$1"; }
          old_save "$A/old" 'from the old'
          new_save "$B/new" 'from the new'
          synced a b a
          same "$(new_open "$B/old")" 'from the old'
          before=$(attribute version "$A/new")
          if old_open "$A/new"; then echo 'was read' >&2; exit 1; fi
          # What was only looked at is no edit.
          synced a b
          same "$(attribute version "$A/new")" "$before"
          same "$(attribute version "$B/new")" "$before"
          new_save "$B/old" 'saved by the new'
          synced b a
          same "$(new_open "$A/old")" 'saved by the new'
          same "$(attribute hasUnresolvedConflicts "$A/old")$(attribute hasUnresolvedConflicts "$B/new")" 00
          """)
      }
    }

    @Test("To test document management", arguments: ["rename", "delete"])
    func management(action: String) async throws {
      try await withTwoDevices { account in
        try await account.script(
          """
          \(open)
          \(action == "rename" ? "mv \"$A/letter\" \"$A/renamed\"" : "rm \"$A/letter\"")
          synced a b
          [ ! -e "$B/letter" ]
          # The program that has it open keeps what it opened.
          same "$(cat <&4)" draft
          \(action == "rename" ? "same \"$(cat \"$B/renamed\")\" draft" : "[ -z \"$(ls \"$B\")\" ]")
          exec 4<&-
          """)
      }
    }

    private func withTwoDevices(_ body: (TestAccount) async throws -> Void) async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await body(account)
      }
    }
  }
}
