import Catalog
import ContentStore
import Coordination
import Glibc
import Model
import MountDriver
import Platform
import Subprocess
import SystemPackage
import TestWaiting
import Testing

/// Local files that the kernel reads and writes itself. Where it can't, `theModeSaysWhy` is what is
/// left to test.
@Suite(.enabled(if: access("/dev/fuse", R_OK | W_OK) == 0))
struct PassthroughTests {
  private func mounted(_ options: [String] = [])
    async throws -> Mounted
  {
    let mounted = try Mounted(options: options)
    // The kernel has asked and was answered once anything was looked at.
    _ = try await mounted.run("ls")
    return mounted
  }

  private func python(_ script: String, in mounted: Mounted) async throws {
    try Files.replace(mounted.directory + "/script.py", with: Array(script.utf8))
    let result = try await mounted.run("python3 ../script.py")
    #expect(result.status == 0, "\(result.output)")
  }

  private func inode(_ name: String, of mounted: Mounted) throws -> Catalog.Inode {
    try #require(try mounted.coordinator.catalog.lookup(try ItemName(name), in: .root))
  }

  @Test func theModeSaysWhy() async throws {
    let off = try await mounted(["passthrough=off"])
    #expect(off.mount.mode == .daemon(reason: "it is switched off by the option passthrough=off"))
    try await python("open('f', 'w').write('x'); assert open('f').read() == 'x'", in: off)
    try off.mount.unmount()
    let auto = try await mounted()
    #expect(auto.mount.mode.isKernel == (auto.mount.mode.reason == nil))
    try auto.mount.unmount()
  }

  /// All that is done to the bytes of a file, through one program and between two, the other of
  /// which holds the file open in another way.
  @Test(arguments: [[], ["passthrough=off"]])
  func filesAreAsOnAnyFileSystem(_ options: [String]) async throws {
    let mounted = try await mounted(options)
    try await python(
      """
      fcntl, mmap, os, subprocess = map(__import__, ('fcntl', 'mmap', 'os', 'subprocess'))
      def content(name): return open(name, 'rb').read()
      f = os.open('f', os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
      os.write(f, b'hello'); assert os.fstat(f).st_size == 5 and content('f') == b'hello'
      g = os.open('f', os.O_WRONLY | os.O_APPEND); os.write(g, b' world')
      assert os.pread(f, 100, 0) == b'hello world' and os.stat('f').st_size == 11
      os.close(g)
      before = os.stat('f').st_mtime_ns; os.pwrite(f, b'h', 0); assert os.fstat(f).st_mtime_ns >= before
      os.utime(f, ns=(5, 7)); os.close(f)
      assert os.stat('f').st_mtime_ns == 7, os.stat('f')
      # The clock of what the kernel writes: by the daemon's it may be a tick earlier.
      open('../native', 'w').write('x'); native = os.stat('../native').st_mtime_ns
      f = os.open('f', os.O_RDWR); os.pwrite(f, b'H', 0); now = os.fstat(f).st_mtime_ns
      assert now >= native, (now, native)
      os.ftruncate(f, 6); assert content('f') == b'Hello '
      os.posix_fallocate(f, 0, 1 << 20); assert os.fstat(f).st_size == 1 << 20
      m = mmap.mmap(f, 1 << 20); m[0:5] = b'again'; assert content('f')[:6] == b'again '
      os.pwrite(f, b'A', 0); assert m[0:1] == b'A'
      m.close(); os.fsync(f); os.close(f)
      os.close(os.open('f', os.O_WRONLY | os.O_TRUNC)); assert os.stat('f').st_size == 0
      big = os.urandom(3 << 20); open('big', 'wb').write(big)
      a = os.open('big', os.O_RDONLY); b = os.open('copy', os.O_RDWR | os.O_CREAT, 0o644)
      at = 0
      while at < len(big): at += os.copy_file_range(a, b, len(big) - at, at, at)
      assert content('copy') == big
      c = os.open('sent', os.O_WRONLY | os.O_CREAT, 0o644); at = 0
      while at < len(big): at += os.sendfile(c, a, at, len(big) - at)
      assert content('sent') == big
      d = os.open('direct', os.O_RDWR | os.O_CREAT | os.O_DIRECT, 0o644)
      page = mmap.mmap(-1, 4096); page.write(b'p' * 4096); os.write(d, page)
      assert content('direct') == b'p' * 4096
      page.seek(0); subprocess.check_call(
        'head -c 10000 big > odd; dd if=odd of=last bs=4096 oflag=direct status=none; cmp odd last', shell=True)
      log = os.open('log', os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644); other = os.open('log', os.O_RDWR)
      os.write(log, b'one'); os.pwrite(other, b'four', 3); os.write(log, b'seven')
      assert content('log') == b'onefourseven' and os.pread(other, 20, 0) == b'onefourseven'
      fcntl.fcntl(log, fcntl.F_SETFL, 0); os.pwrite(log, b'ONE', 0); assert content('log') == b'ONEfourseven'
      m = mmap.mmap(log, 12); assert m[:] == b'ONEfourseven'; m[0:1] = b'o'; m.close()
      assert os.pread(log, 3, 0) == b'oNE' and os.fstat(log).st_size == 12
      os.close(log); os.close(other)
      os.unlink('big'); assert os.fstat(a).st_nlink == 0 and os.pread(a, 10, 5) == big[5:15]
      for fd in (a, b, c, d): os.close(fd)
      open('program', 'w').write('#!/bin/sh\\necho ran\\n'); os.chmod('program', 0o755)
      assert subprocess.check_output(['./program']) == b'ran\\n'
      many = [os.open('copy', os.O_RDONLY if i % 2 else os.O_RDWR) for i in range(100)]
      os.pwrite(many[0], b'last', 0); assert all(os.pread(fd, 4, 0) == b'last' for fd in many)
      for fd in many: os.close(fd)
      empty = os.open('empty', os.O_RDONLY | os.O_CREAT, 0o644); assert os.read(empty, 1) == b''
      reader = os.open('none', os.O_RDONLY | os.O_CREAT, 0o644)
      open('none', 'w').write('x'); assert os.read(reader, 2) == b'x'
      sparse = os.open('sparse', os.O_RDWR | os.O_CREAT, 0o644); os.pwrite(sparse, b'x', 1 << 30)
      assert os.fstat(sparse).st_size == (1 << 30) + 1 and os.fstat(sparse).st_blocks < 64
      assert os.lseek(sparse, 0, os.SEEK_DATA) == 1 << 30
      """, in: mounted)
    try mounted.mount.unmount()
  }

  /// The kernel's FUSE, unlike its ext4, keeps what a mapping stored past the end in the page.
  @Test(
    "what a mapping stores past the end reads as zeros when the file grows",
    arguments: [[], ["passthrough=off"]])
  func mappedBytesPastTheEnd(_ options: [String]) async throws {
    let mounted = try await mounted(options)
    try await python(
      """
      ctypes, os = map(__import__, ('ctypes', 'os'))
      libc = ctypes.CDLL(None, use_errno=True); libc.mmap.restype = ctypes.c_void_p
      libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + 3 * [ctypes.c_int] + [ctypes.c_long]
      open('source', 'wb').write(b"q" * 10000); source = os.open('source', os.O_RDONLY)
      grow = {
        'truncate': lambda f: os.ftruncate(f, 8192),
        'truncate within': lambda f: os.ftruncate(f, 300),
        'write': lambda f: os.pwrite(f, b'w', 5000),
        'write within': lambda f: os.pwrite(f, b'w', 400),
        'allocate': lambda f: libc.fallocate(f, 0, ctypes.c_long(0), ctypes.c_long(8192)),
        'allocate within': lambda f: libc.fallocate(f, 0, ctypes.c_long(150), ctypes.c_long(250)),
        'copy': lambda f: os.copy_file_range(source, f, 10, 0, 6000),
        'copy within': lambda f: os.copy_file_range(source, f, 10, 0, 400),
      }
      def new():
        f = os.open('f', os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644); os.write(f, b'a' * 100)
        return f
      def kept():
        # The kernel has the page from an earlier open.
        os.close(new()); open('f', 'rb').read(); open('f', 'rb').read()
        return os.open('f', os.O_RDWR)
      def cut():
        # The kernel has the page since a program wrote all of it.
        f = new(); os.pwrite(f, b'a' * 4096, 0); os.ftruncate(f, 100)
        return f
      for name, call, stored, make in [
          (name, call, stored, make) for name, call in grow.items()
          for stored in (False, True) for make in (new, kept, cut)]:
        f = make()
        m = libc.mmap(None, 4096, 3, 1, f, 0); assert m != 2**64 - 1
        ctypes.memmove(m, b'b', 1); ctypes.memmove(m + 200, b'XYZ', 3)
        if stored: libc.msync(ctypes.c_void_p(m), 4096, 4)
        call(f)
        size = os.fstat(f).st_size; assert size >= 300, (name, size)
        assert os.pread(f, 10, 198) == bytes(10), (name, make.__name__, stored, 'read')
        assert ctypes.string_at(m + 198, 10) == bytes(10), (name, make.__name__, stored, 'mapping')
        # What is stored there from now on is content.
        ctypes.memmove(m + 220, b'now', 3); libc.msync(ctypes.c_void_p(m), 4096, 4)
        libc.munmap(ctypes.c_void_p(m), 4096); os.close(f)
        text = open('f', 'rb').read()
        way = name, make.__name__, stored, text[:230]
        assert text[:100] == b'b' + b'a' * 99 and text[100:220] == bytes(120), way
        assert text[220:223] == b'now' and text[223:300] == bytes(77), way
      """, in: mounted)
    try mounted.mount.unmount()
  }

  @Test func aWriteTakesSetUserIDAway() async throws {
    let mounted = try await mounted(["allow_other"])
    try await python(
      """
      os = __import__('os')
      open('f', 'w').write('x'); os.chmod('f', 0o6777); os.chmod('.', 0o777)
      pid = os.fork()
      if pid == 0:
        os.setgid(65534); os.setuid(65534); f = os.open('f', os.O_WRONLY); os.write(f, b'y')
        os._exit(0 if os.fstat(f).st_mode & 0o7777 == 0o777 else 1)
      assert os.waitpid(pid, 0)[1] == 0
      assert os.stat('f').st_mode & 0o7777 == 0o777
      os.chmod('f', 0o6777); f = os.open('f', os.O_WRONLY); os.write(f, b'z'); os.close(f)
      assert os.stat('f').st_mode & 0o7777 == 0o6777
      """, in: mounted)
    try mounted.mount.unmount()
  }

  @Test
  func aMappingOutlivesItsDescriptorAndIsStillAWriter() async throws {
    let mounted = try await mounted()
    let script = """
      ctypes, os, time = map(__import__, ('ctypes', 'os', 'time'))
      libc = ctypes.CDLL(None, use_errno=True); libc.mmap.restype = ctypes.c_void_p
      libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + 3 * [ctypes.c_int] + [ctypes.c_long]
      f = os.open('f', os.O_RDWR | os.O_CREAT, 0o644); os.ftruncate(f, 8192)
      # Not Python's mmap, which keeps a descriptor.
      m = libc.mmap(None, 8192, 3, 1, f, 0); assert m != 2**64 - 1; os.close(f)
      def step(name):
        open('\(mounted.directory)/' + name, 'w').close()
        while not os.path.exists('\(mounted.directory)/after-' + name): time.sleep(0.01)
      step('closed')
      assert open('f', 'rb').read(5) == bytes(5)
      ctypes.memmove(m, b'first', 5)
      assert open('f', 'rb').read(5) == b'first'
      step('stored')
      ctypes.memmove(m + 4096, b'last', 4)
      assert open('f', 'rb').read()[4096:4100] == b'last' and os.stat('f').st_size == 8192
      """
    try Files.replace(mounted.directory + "/script.py", with: Array(script.utf8))
    async let program = mounted.run("python3 ../script.py")
    func step(_ name: String, _ body: () async throws -> Void) async throws {
      try await eventually("the program is at the step \"\(name)\"") {
        Files.exists("\(mounted.directory)/\(name)")
      }
      try await body()
      try Files.replace("\(mounted.directory)/after-\(name)", with: [])
    }
    var seen: Catalog.Inode?
    try await step("closed") {
      let file = try inode("f", of: mounted)
      seen = file
      #expect(mounted.coordinator.isOpenForWriting(file.number))
      #expect(throws: Errno.resourceBusy) { try mounted.coordinator.evict(file.number) }
    }
    try await step("stored") {
      // What was stored is noted while the mapping stays.
      let before = try #require(seen).changed
      if mounted.mount.mode.isKernel {
        try await eventually("the catalog has a newer time of change") {
          try inode("f", of: mounted).changed > before
        }
      }
      seen = try inode("f", of: mounted)
      #expect(mounted.coordinator.isOpenForWriting(try #require(seen).number))
    }
    let outcome = try await program
    #expect(outcome.status == 0, "\(outcome.output)")
    let number = try #require(seen).number
    try await eventually("the file is not open for writing") {
      !mounted.coordinator.isOpenForWriting(number)
    }
    let end = try inode("f", of: mounted)
    let stored = try #require(seen)
    #expect(end.changed > stored.changed)
    let file = try mounted.coordinator.content.open(try #require(end.contentKey), writable: false)
    #expect(try file.read(count: 4, at: 4096) == Array("last".utf8))
    try mounted.mount.unmount()
  }

  @Test func whatAProgramHasOpenOutlivesTheMount() async throws {
    let mounted = try await mounted()
    guard mounted.mount.mode.isKernel else { return try mounted.mount.unmount() }
    let script = """
      os, time = map(__import__, ('os', 'time'))
      f = os.open('f', os.O_RDWR | os.O_CREAT, 0o644); os.write(f, b'before')
      os.chdir('/'); open('\(mounted.directory)/held', 'w').close()
      while not os.path.exists('\(mounted.directory)/go'): time.sleep(0.01)
      assert os.pread(f, 10, 0) == b'before'; os.write(f, b' and after')
      """
    try Files.replace(mounted.directory + "/script.py", with: Array(script.utf8))
    async let program = mounted.run("python3 ../script.py")
    try await eventually("the program has the file open") {
      Files.exists(mounted.directory + "/held")
    }
    mounted.mount.detach()
    // Nobody hears of what is written from here on. The file counts as changed, and nothing is
    // taken from it while it has a writer.
    let file = try inode("f", of: mounted)
    let key = try #require(file.contentKey)
    #expect(file.version == nil)
    #expect(try mounted.coordinator.content.hasWriter(key))
    #expect(throws: Errno.resourceBusy) { try mounted.coordinator.evict(file.number) }
    try Files.replace(mounted.directory + "/go", with: [])
    let outcome = try await program
    #expect(outcome.status == 0, "\(outcome.output)")
    try await eventually("the content has no writer") {
      try !mounted.coordinator.content.hasWriter(key)
    }
    let content = try mounted.coordinator.content.open(key, writable: false)
    #expect(try content.read(count: 100, at: 0) == Array("before and after".utf8))
  }

  @Test func labelsThatAreNotThereAreNotAskedForAgain() async throws {
    let mounted = try await mounted()
    try await python(
      """
      errno, os = map(__import__, ('errno', 'os'))
      open('f', 'w').close()
      if not os.path.exists('/sys/fs/selinux/enforce'):
        try: os.getxattr('f', 'security.selinux'); assert False
        except OSError as error: assert error.errno == errno.EOPNOTSUPP
      """, in: mounted)
    try mounted.mount.unmount()
  }
}
