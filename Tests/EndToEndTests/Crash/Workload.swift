/// Operations of `Tests/CrashTools/driver.c`, a line each: few, around the calls after which
/// something is promised. Most mistakes of file systems in a crash need no more than three
/// operations and an fsync.
struct Workload: Sendable, CustomStringConvertible {
  let name: String
  let lines: [String]
  /// Talks to the backend while it runs.
  let syncs: Bool

  init(_ name: String, syncs: Bool = false, _ text: String) {
    self.name = name
    self.syncs = syncs
    lines = text.split(separator: "\n").map(String.init)
  }

  var description: String { name }

  /// What is there, uploaded, before each: `far` is evicted then.
  static let fixture = Workload(
    "fixture",
    """
    create 1 old
    write 1 0 12288 o
    fsync 1
    close 1
    create 1 far
    write 1 0 12288 f
    fsync 1
    close 1
    mkdir dir
    mkdir empty
    create 1 dir/inner
    write 1 0 100 i
    fsync 1
    close 1
    create 1 two
    write 1 0 5000 t
    fsync 1
    close 1
    link two dir/two
    """)

  static let all: [Workload] = [
    Workload(
      "create",
      """
      create 1 new
      write 1 0 8192 a
      fsync 1
      write 1 4096 8192 b
      close 1
      """),
    Workload(
      "many",
      """
      create 1 new1
      write 1 0 100 a
      close 1
      create 2 dir/new2
      write 2 0 5000 b
      fdatasync 2
      close 2
      create 3 new3
      write 3 0 100 c
      close 3
      fsyncdir .
      """),
    Workload(
      "save",
      """
      create 1 save.tmp
      write 1 0 6000 s
      fsync 1
      close 1
      rename save.tmp old
      fsyncdir .
      """),
    Workload(
      "save-unsynced",
      """
      create 1 save.tmp
      write 1 0 6000 s
      close 1
      rename save.tmp old
      create 2 other
      fsync 2
      """),
    Workload(
      "append",
      """
      open 1 old
      write 1 12288 3000 x
      fdatasync 1
      write 1 15288 3000 y
      close 1
      """),
    Workload(
      "directories",
      """
      mkdir d
      create 1 d/f
      write 1 0 100 a
      fsync 1
      mkdir d/e
      fsyncdir d
      rename d/f d/e/f
      rename d dir/d
      fsyncdir dir
      """),
    Workload(
      "remove",
      """
      unlink old
      fsyncdir .
      unlink dir/inner
      unlink two
      rmdir empty
      fsyncdir dir
      """),
    Workload(
      "links",
      """
      link old dir/link
      fsyncdir dir
      unlink old
      symlink dir/link soft
      open 1 dir/link
      write 1 0 100 l
      fsync 1
      """),
    Workload(
      "truncate",
      """
      open 1 old
      cut 1 100
      fsync 1
      cut 1 9000
      write 1 8000 500 t
      fdatasync 1
      close 1
      """),
    Workload(
      "rewrite",
      """
      empty 1 old
      write 1 0 3000 r
      close 1
      empty 1 two
      write 1 0 100 r
      fsync 1
      close 1
      """),
    Workload(
      "overwrite",
      """
      open 1 old
      write 1 4096 4096 w
      write 1 0 100 v
      create 2 other
      fsync 2
      close 1
      """),
    Workload(
      "map",
      """
      open 1 old
      map 1 4096 4096 m
      close 1
      open 1 two
      map 1 0 100 n
      close 1
      """),
    Workload(
      "allocate",
      """
      open 1 old
      punch 1 4096 4096
      fsync 1
      allocate 1 0 20000
      fsync 1
      close 1
      """),
    Workload(
      "attributes",
      """
      chmod old 600
      attribute old user.color red
      open 1 old
      fsync 1
      attribute dir user.color blue
      chmod dir 700
      fsyncdir dir
      """),
    Workload(
      "exchange",
      """
      exchange old two
      fsyncdir .
      exchange dir empty
      rename empty/inner inner
      fsyncdir .
      """),
    Workload(
      "unlinked",
      """
      open 1 old
      unlink old
      write 1 0 4096 u
      fsync 1
      unnamed 2 .
      write 2 0 4096 n
      name 2 named
      fsync 2
      close 1
      """),
    Workload(
      "evict", syncs: true,
      """
      evict old
      read old
      evict old
      evict dir
      read dir/inner
      """),
    Workload(
      "download", syncs: true,
      """
      read far
      open 1 far
      write 1 0 4096 d
      fsync 1
      close 1
      """),
    Workload(
      "placeholder", syncs: true,
      """
      open 1 far
      write 1 12288 100 p
      fsync 1
      close 1
      """),
    Workload(
      "placeholder-empty", syncs: true,
      """
      empty 1 far
      write 1 0 100 p
      close 1
      """),
    Workload(
      "upload", syncs: true,
      """
      open 1 old
      write 1 0 4096 u
      close 1
      create 2 new
      write 2 0 5000 n
      close 2
      sync
      open 1 old
      write 1 0 4096 v
      fsync 1
      close 1
      rename new dir/new
      unlink two
      sync
      """),
  ]
}
