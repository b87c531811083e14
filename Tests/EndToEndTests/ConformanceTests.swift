import Testing

/// What programs are told by system calls, in a mount and in a native directory: the programs of
/// `Tests/conformance/programs` run in both, and have to tell the same of both.
///
/// `make conformance` runs them too, with the public suites.
extension EndToEnd {
  @Suite struct ConformanceTests {
    private func compare(_ program: String) async throws {
      try await withAccount { account in
        // Some of what they do is for several users, set-id programs and device nodes: all of it as
        // root.
        try await account.device(
          "a", mountOptions: TestAccount.isRoot ? "allow_other,suid,dev" : nil)
        try await account.script(
          """
          suite='\(TestAccount.sourceRoot)/Tests/conformance'
          mkdir native "$A/mounted"
          PROGRAMS=\(program) ENTRIES=2000 "$suite/own" native "$WORK/told.native"
          PROGRAMS=\(program) ENTRIES=2000 "$suite/own" "$A/mounted" "$WORK/told.mount"
          "$suite/compare" \(program) told.native told.mount >&2
          """, timeout: 300)
      }
    }

    /// Holes, space, truncation, O_DIRECT, mappings, copies in the kernel.
    @Test func contentsBehaveAsOnALocalDisk() async throws { try await compare("contents") }

    /// Reading and seeking in directories that change meanwhile.
    @Test func directoriesReadAsOnALocalDisk() async throws { try await compare("directories") }

    /// ENAMETOOLONG, ELOOP, EFBIG and what is refused of each kind of file.
    @Test func limitsAreThoseOfALocalDisk() async throws { try await compare("limits") }

    /// flock(2), fcntl(2) and locks of open file descriptions, between processes.
    @Test func locksHoldAsOnALocalDisk() async throws { try await compare("locks") }

    /// O_APPEND, O_TRUNC, O_EXCL, O_TMPFILE; files and directories without a name.
    @Test func filesOpenAsOnALocalDisk() async throws { try await compare("opening") }

    /// Owners, groups, modes, set-id and sticky bits.
    @Test(.enabled(if: TestAccount.isRoot))
    func permissionsAreThoseOfALocalDisk() async throws { try await compare("permissions") }

    /// Over open files and directories, RENAME_NOREPLACE, RENAME_EXCHANGE.
    @Test func renamesAreThoseOfALocalDisk() async throws { try await compare("renaming") }

    /// Which change touches which time, to the nanosecond; numbers of links of directories.
    @Test func timesAndLinkCountsAreThoseOfALocalDisk() async throws { try await compare("times") }

    /// inotify of what is done in the mount; programs run from it.
    @Test func watchingAndRunningProgramsWork() async throws { try await compare("watching") }
  }
}
