import Testing

/// Options of `mount -o` that mount(8) and fstab(5) pass along, on real mounts.
extension EndToEnd {
  @Suite struct MountOptionTests {
    @Test("a mount works with each option that mount(8) passes along, nodiratime among them")
    func optionsOfMount() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          """
          mounts() {
            on a unmount --quiet "$A_MOUNT"
            on a mount --quiet "$CONTAINER" "$A_MOUNT" -o "$1"
            echo "$1" > "$A/file"; same "$(cat "$A/file")" "$1"
            # Reading a directory changes no time, whatever the option says of that.
            mkdir "$A/d"; touch -d 2001-02-03 "$A/d"; ls "$A/d"
            same "$(stat -c '%X %Y' "$A/d")" "$(date -d 2001-02-03 '+%s %s')"
            rmdir "$A/d"
          }
          flags() { awk -v at="$A_MOUNT" '$2 == at { print $4 }' /proc/self/mounts; }
          has_flag() { flags | grep -w "$1"; }
          for option in defaults auto noauto user nouser users nousers owner group _netdev nofail \\
            relatime norelatime atime noatime diratime nodiratime strictatime async sync dirsync \\
            lazytime nolazytime exec noexec nodev nosuid rw x-systemd.automount comment=text; do
            mounts $option
          done
          mounts defaults,noatime,nodiratime,noexec
          has_flag noatime > /dev/null; has_flag noexec > /dev/null
          on a unmount --quiet "$A_MOUNT"
          export UBIQUITYFS_STATE=$ROOT/a
          "$SOURCES/mount-helpers/mount.ubiquityfs" "$CONTAINER" "$A_MOUNT" -o rw,noauto,nodiratime
          same "$(cat "$A/file")" defaults,noatime,nodiratime,noexec
          has_flag relatime > /dev/null
          """)
      }
    }
  }
}
