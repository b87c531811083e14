internal import CFuse3

/// What is agreed with the kernel when the connection starts.
enum FuseCapabilities {
  private struct Choice {
    var flag: Int32
    var isWanted: Bool
  }

  /// The one place where capabilities are chosen. What the kernel does not offer is left out.
  static func negotiate(_ connection: inout fuse_conn_info) {
    let choices = [
      // Only the daemon changes files behind the kernel, and it says so: with this set, SQLite in
      // WAL mode read stale pages of a shared mapping.
      Choice(flag: FUSE_CAP_AUTO_INVAL_DATA, isWanted: false),
      // A changed size or time must not drop pages: the daemon invalidates exactly what changed.
      Choice(flag: FUSE_CAP_EXPLICIT_INVAL_DATA, isWanted: true),
      // A write must have reached the daemon before close returns, or kill -9 would lose it.
      Choice(flag: FUSE_CAP_WRITEBACK_CACHE, isWanted: false),
      // Reads of one file go on side by side, so that read-ahead of a placeholder is not serial.
      Choice(flag: FUSE_CAP_ASYNC_READ, isWanted: true),
      // The same for direct I/O.
      Choice(flag: FUSE_CAP_ASYNC_DIO, isWanted: true),
      // Contents of local files go from the content file to the kernel without a copy.
      Choice(flag: FUSE_CAP_SPLICE_WRITE, isWanted: true),
      // Pages stay in the content file's cache, which other reads use; moving would take them out.
      Choice(flag: FUSE_CAP_SPLICE_MOVE, isWanted: false),
      // A second system call for every small request costs more than the copy of a large write
      // saves.
      Choice(flag: FUSE_CAP_SPLICE_READ, isWanted: false),
      // Lookups and readdir of one directory do not exclude each other; the catalog has its own
      // lock.
      Choice(flag: FUSE_CAP_PARALLEL_DIROPS, isWanted: true),
      // `ls -l` asks once for a directory, not once for every entry.
      Choice(flag: FUSE_CAP_READDIRPLUS, isWanted: true),
      // But `find` that looks at names only is spared the attributes.
      Choice(flag: FUSE_CAP_READDIRPLUS_AUTO, isWanted: true),
      // O_TRUNC comes with the open: a placeholder is truncated without its content being fetched.
      Choice(flag: FUSE_CAP_ATOMIC_O_TRUNC, isWanted: true),
      // A file handle (open_by_handle_at(2), NFS) finds an inode that the kernel has forgotten, by
      // a lookup of `.`: inode numbers are never used again.
      Choice(flag: FUSE_CAP_EXPORT_SUPPORT, isWanted: true),
      // Targets never change, so they are read once.
      Choice(flag: FUSE_CAP_CACHE_SYMLINKS, isWanted: true),
      // The kernel keeps locks itself: the mount is this machine's alone.
      Choice(flag: FUSE_CAP_POSIX_LOCKS, isWanted: false),
      Choice(flag: FUSE_CAP_FLOCK_LOCKS, isWanted: false),
      // There is no ioctl.
      Choice(flag: FUSE_CAP_IOCTL_DIR, isWanted: false),
      // The kernel checks access control lists, which are attributes here.
      Choice(flag: FUSE_CAP_POSIX_ACL, isWanted: true),
      // The umask does not hold where a directory has an initial list: it is applied here.
      Choice(flag: FUSE_CAP_DONT_MASK, isWanted: true),
      // Superseded by its second version, which libfuse 3.14 does not know (see `FuseWishes`).
      Choice(flag: FUSE_CAP_HANDLE_KILLPRIV, isWanted: false),
    ]
    for choice in choices {
      let flag = UInt32(choice.flag)
      if choice.isWanted && connection.capable & flag != 0 {
        connection.want |= flag
      } else {
        connection.want &= ~flag
      }
    }
    // One request carries up to 1 MiB, the most that the kernel allows.
    connection.max_write = maximumWrite
    connection.max_readahead = 1 << 20
    // Reads that wait for the network must not keep others from being sent.
    connection.max_background = 256
    connection.congestion_threshold = 192
    connection.time_gran = 1
  }

  static let maximumWrite: UInt32 = 1 << 20
}
