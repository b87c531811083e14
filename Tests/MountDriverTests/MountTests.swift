import Catalog
import ContentStore
import Coordination
import Foundation
import Glibc
import Model
import MountDriver
import Platform
import TestWaiting
import Testing

/// Real mounts: they need /dev/fuse.
@Suite(.enabled(if: access("/dev/fuse", R_OK | W_OK) == 0))
struct MountTests {
  private func expect(_ script: String, in mounted: Mounted, prints output: String? = nil)
    async throws
  {
    let result = try await mounted.run(script)
    #expect(result.status == 0, "\(script): \(result.output)")
    if let output { #expect(result.output == output) }
  }

  @Test
  func aTreeIsCopiedAndIsTheSame() async throws {
    let mounted = try Mounted()
    try await expect(
      """
      mkdir ../tree; cd ../tree
      for d in a b/c b/d; do mkdir -p $d; for i in 1 2 3; do head -c ${i}0000 /dev/urandom > $d/f$i; done; done
      ln -s b/c link; ln a/f1 hard; chmod 600 a/f2; chmod 751 b/d; touch -d '2001-02-03 04:05:06.789' a/f3 b
      cd '\(mounted.path)'
      cp -a ../tree .
      diff -r --no-dereference ../tree tree
      list() { (cd $1; find . -type f -printf '%p %m %s %T@ %n %u %g\\n' -o -type l -printf '%p %l\\n' | sort); }
      [ "$(list ../tree)" = "$(list tree)" ]
      mv tree/b moved; diff -r ../tree/b moved
      rm -r moved; [ ! -e moved ]
      tar cf t.tar tree; tar df t.tar
      """, in: mounted)
    try mounted.mount.unmount()
  }

  /// What these programs are told by system calls, they are told natively too.
  @Test(arguments: ["contents", "opening", "renaming"])
  func systemCallsAnswerAsNatively(_ program: String) async throws {
    let mounted = try Mounted()
    let source = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
    try await expect(
      """
      suite='\(source.path)/../conformance'
      mkdir ../native here
      export PROGRAMS=\(program)
      "$suite/own" "$PWD/../native" "$PWD/../told.native"
      "$suite/own" "$PWD/here" "$PWD/../told.mount"
      "$suite/compare" \(program) ../told.native ../told.mount
      """, in: mounted)
    try mounted.mount.unmount()
  }

  /// Whether a program goes on to look at what it lists, or not, it is told the same.
  @Test
  func namesAreListedWithTheRightTypesAndNumbers() async throws {
    let mounted = try Mounted()
    try await expect(
      """
      for d in a b c; do mkdir $d $d/inner; mkfifo $d/fifo; ln -s target $d/link; for i in $(seq 300); do : > $d/f$i; done; done
      for d in a b c; do ls -aiU1 $d | sed 's/^ *//' | sort > ../listed; (cd $d; stat -c '%i %n' . .. * | sort) > ../seen; diff ../listed ../seen; done
      find . -type f | wc -l; find . -type d | wc -l; find . -type l | wc -l; find . -type p | wc -l
      find . -type f -size 0 -links 1 | wc -l; ls -lR | grep -c '^-'
      """, in: mounted, prints: "900\n8\n3\n3\n900\n900\n")
    try mounted.mount.unmount()
  }

  @Test
  func gitWorks() async throws {
    let mounted = try Mounted()
    try await expect(
      """
      export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
      git init -q repository; cd repository
      for i in $(seq 50); do echo $i > f$i; done
      git add -A; git commit -qm one; git mv f1 g1; git commit -qam two
      [ -z "$(git status --porcelain)" ]; git fsck --no-progress; git gc -q
      cd ..; git clone -q repository clone; diff -r -x .git repository clone
      """, in: mounted)
    try mounted.mount.unmount()
  }

  @Test(.enabled(if: access("/usr/bin/sqlite3", X_OK) == 0))
  func sqliteWorks() async throws {
    let mounted = try Mounted()
    try await expect(
      """
      sqlite3 x.db 'pragma journal_mode=wal; create table t(a);
        with recursive c(x) as (select 1 union all select x+1 from c where x<5000) insert into t select x from c;
        update t set a = a + 1; pragma integrity_check; select sum(a) from t;'
      """, in: mounted, prints: "wal\nok\n12507500\n")
    try mounted.mount.unmount()
  }

  @Test(.enabled(if: access("/usr/bin/getfattr", X_OK) == 0))
  func attributesAreReadAndWritten() async throws {
    let mounted = try Mounted()
    try await expect(
      """
      echo x > f; setfattr -n user.a -v 1 f
      getfattr -d --absolute-names f | grep -v '^$' | grep -v '^#'
      getfattr --only-values -n user.ubiquity.isUploaded f
      ! setfattr -n user.ubiquity.version -v 1 f 2>/dev/null
      ! setfattr -n user.ubiquity.evict -v 1 f 2>/dev/null
      """, in: mounted, prints: "user.a=\"1\"\n0")
    try mounted.mount.unmount()
  }

  @Test
  func aReadOnlyMountIsNotChanged() async throws {
    let mounted = try Mounted(options: ["ro"])
    try await expect(
      "! touch f; ls", in: mounted,
      prints: "touch: cannot touch 'f': Read-only file system\nDocuments\n")
    try mounted.mount.unmount()
  }

  @Test
  func aBusyMountStaysAndADetachedOneIsGone() async throws {
    // What the daemon reads for the program, it reads no more.
    let mounted = try Mounted(options: ["passthrough=off"])
    try await expect("echo x > f", in: mounted)
    async let holder = mounted.run(
      "exec 3<f; echo > ../held; cd /; while [ ! -e \(mounted.directory)/go ]; do sleep 0.05; done; ! cat <&3"
    )
    try await eventually("the program has the file open") {
      Files.exists(mounted.directory + "/held")
    }
    #expect(throws: MountError.busy(mounted.path)) { try mounted.mount.unmount() }
    #expect(mounted.mount.isMounted)
    mounted.mount.detach()
    #expect(!mounted.mount.isMounted)
    #expect(try Files.names(in: mounted.path).isEmpty)
    try Files.replace(mounted.directory + "/go", with: [])
    #expect(try await holder.status == 0)
  }

  @Test
  func badMountPointsAreRefusedWithWhatToDo() async throws {
    let mounted = try Mounted()
    func start(_ path: String) throws {
      try ContainerMount(
        fileSystem: mounted.mount.fileSystem, mountpoint: path, options: MountOptions()
      ) { _ in }.start()
    }
    let missing = mounted.directory + "/missing"
    #expect(throws: MountError.missing(missing)) { try start(missing) }
    let file = mounted.directory + "/catalog.sqlite"
    #expect(throws: MountError.notDirectory(file)) { try start(file) }
    #expect(throws: MountError.notEmpty(mounted.directory)) { try start(mounted.directory) }
    #expect(throws: MountError.alreadyMounted(mounted.path, source: "iCloud.com.example.test")) {
      try start(mounted.path)
    }
    try mounted.mount.unmount()
  }

  @Test
  func aRemoteChangeIsSeenThoughEverythingWasCached() async throws {
    let mounted = try Mounted()
    try await expect(
      "echo x > f; ls; cat f; ! cat g 2>/dev/null", in: mounted, prints: "Documents\nf\nx\n")
    // What the sync engine does, in small: the catalog changes, then the kernel is told.
    let catalog = mounted.coordinator.catalog
    _ = try catalog.create(
      try ItemName("g"), in: .root, NewItem(kind: .directory, mode: 0o755, owner: 0, group: 0))
    _ = try catalog.rename(
      try ItemName("f"), in: .root, to: try ItemName("h"), in: .root, mode: .replace)
    mounted.coordinator.invalidate([
      .entry(parent: .root, name: try ItemName("f")),
      .entry(parent: .root, name: try ItemName("g")),
      .entry(parent: .root, name: try ItemName("h")),
    ])
    #expect(mounted.mount.waitForInvalidations())
    try await expect("ls; cat h; ls g", in: mounted, prints: "Documents\ng\nh\nx\n")
    try mounted.mount.unmount()
  }

  @Test
  func timesThatCannotBeSaidAreTheNearest() async throws {
    let mounted = try Mounted()
    try await expect(
      """
      touch -d '1600-01-01 UTC' f; stat -c %Y f; touch -d '3000-01-01 UTC' f; stat -c %Y f
      touch -d '1901-12-14 UTC' f; stat -c %Y f; touch -d '2300-01-01 UTC' f; stat -c %Y f
      touch -d '1969-12-31 23:59:59.5 UTC' f; stat -c %.1Y f
      """, in: mounted, prints: "-2147483648\n15032385535\n-2147472000\n10413792000\n-0.5\n")
    try mounted.mount.unmount()
  }

  @Test
  func whatIsClosedIsCommitted() async throws {
    let mounted = try Mounted()
    // A copy of the catalog and its journal has what a daemon that is killed would leave.
    let python = """
      os, shutil = map(__import__, ('os', 'shutil'))
      def copy(name):
        os.mkdir('../' + name)
        for suffix in ('', '-wal', '-redo-a', '-redo-b'):
          shutil.copy('../catalog.sqlite' + suffix, '../' + name + '/catalog.sqlite' + suffix)
      for i in range(5):
        os.close(os.open('f%d' % i, os.O_CREAT | os.O_EXCL | os.O_RDONLY, 0o644))
        copy('made-%d' % i)
        for flags in (os.O_RDONLY, os.O_WRONLY):
          f = os.open('f%d' % i, flags)
          os.fchmod(f, 0o600 + flags); os.utime(f, (5, 6 + flags)); os.setxattr(f, 'user.a', b'%d' % flags)
          os.close(f)
          copy('changed-%d-%d' % (i, flags))
      """
    try Files.replace(mounted.directory + "/check.py", with: Array(python.utf8))
    try await expect("python3 ../check.py", in: mounted, prints: "")
    func found(
      _ copy: String, _ file: Int, _ body: (ContainerCatalog, Catalog.Inode) throws -> Void
    )
      throws
    {
      let catalog = try ContainerCatalog(
        path: mounted.directory + "/" + copy + "/catalog.sqlite", owner: 0, group: 0,
        clock: SystemClock())
      try body(catalog, try #require(try catalog.lookup(ItemName("f\(file)"), in: .root)))
      try catalog.close()
    }
    for file in 0..<5 {
      try found("made-\(file)", file) { _, inode in #expect(inode.mode == 0o644) }
      for flags in 0..<2 {
        try found("changed-\(file)-\(flags)", file) { catalog, inode in
          #expect(inode.mode == 0o600 + UInt16(flags))
          #expect(inode.modified.nanoseconds == Int64(6 + flags) * 1_000_000_000)
          let value = try catalog.attribute("user.a", of: inode.number)
          #expect(value == Array("\(flags)".utf8))
        }
      }
    }
    try mounted.mount.unmount()
  }

  @Test
  func pagesChangedThroughAMappingAreWrittenBeforeABusyMountGoes() async throws {
    let mounted = try Mounted()
    let python = """
      mmap, os, time = map(__import__, ('mmap', 'os', 'time'))
      size = 64 << 20
      f = os.open('f', os.O_RDWR | os.O_CREAT); os.ftruncate(f, size)
      m = mmap.mmap(f, size)
      for i in range(0, size, 4096): m[i:i+8] = b'%08d' % (i // 4096)
      open('\(mounted.directory)/held', 'w').close()
      while not os.path.exists('\(mounted.directory)/go'): time.sleep(0.02)
      os._exit(0)
      """
    try Files.replace(mounted.directory + "/map.py", with: Array(python.utf8))
    async let holder = mounted.run("python3 ../map.py")
    try await eventually("the program has written to its mapping") {
      Files.exists(mounted.directory + "/held")
    }
    let catalog = mounted.coordinator.catalog
    let found = try catalog.lookup(try ItemName("f"), in: .root)
    let key = try #require(found?.contentKey)
    mounted.mount.detach()
    let file = try mounted.coordinator.content.open(key, writable: false)
    var lost = 0
    for page in 0..<(64 << 8) {
      let digits = String(page)
      let text = String(repeating: "0", count: 8 - digits.count) + digits
      if try file.read(count: 8, at: UInt64(page) << 12) != Array(text.utf8) { lost += 1 }
    }
    #expect(lost == 0)
    try Files.replace(mounted.directory + "/go", with: [])
    _ = try await holder
  }

  @Test(.timeLimit(.minutes(15)))
  func aMountGoesWhileProgramsListItAndTheKernelIsTold() async throws {
    for _ in 0..<5 {
      let mounted = try Mounted()
      let gone = mounted.directory + "/gone"
      try await expect("mkdir d; cd d; touch $(seq 300)", in: mounted)
      // After the end the kernel may answer all of `ls` from its caches, so `ls` need not fail.
      async let lister = mounted.run(
        """
        cd d
        list() { while ls -l >/dev/null 2>&1 && [ ! -e '\(gone)' ]; do :; done; }
        for i in 1 2 3 4; do (echo > ../../held; list) & done
        wait
        """)
      try await eventually("a program lists the directory") {
        Files.exists(mounted.directory + "/held")
      }
      let directory = try #require(
        try mounted.coordinator.catalog.lookup(try ItemName("d"), in: .root))
      let names = try (1...300).map { try ItemName(String($0)) }
      for _ in 0..<20 {
        mounted.coordinator.invalidate(names.map { .entry(parent: directory.number, name: $0) })
      }
      mounted.mount.detach()
      #expect(!mounted.mount.isMounted)
      try Files.replace(gone, with: [])
      _ = try await lister
    }
  }
}
