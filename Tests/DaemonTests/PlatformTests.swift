import ControlProtocol
import DaemonClient
import Glibc
import Platform
import TestWaiting
import Testing

@Suite struct FileSystemKindTests {
  @Test func whatADirectoryIsOn() {
    #expect(FileSystemKind.of("/proc").type == "proc")
    #expect(!FileSystemKind.of("/proc").synchronizesNames)
    #expect(FileSystemKind.of("/nothing/here").type == "")
  }

  @Test(arguments: ["", "ext2", "tmpfs", "btrfs", "overlay", "fuse.sshfs"])
  func whatPromisesNothingOfNames(type: String) {
    #expect(!FileSystemKind(type: type).synchronizesNames)
  }
}

@Suite struct MemoryTests {
  /// Other tests run meanwhile and map some of it again.
  @Test func codeIsUnmapped() throws {
    let before = try mappedCode()
    unmapUnusedCode()
    #expect(try mappedCode() < before)
  }

  /// Pages of files that this process has mapped; proc(5), `statm`.
  private func mappedCode() throws -> Int {
    let fields = try #require(Files.smallText("/proc/self/statm")).split(separator: " ")
    return try #require(fields.count > 2 ? Int(fields[2]) : nil)
  }
}

/// From a path to an item of a mount.
@Suite struct ItemLocatorTests {
  private let table = MountTable.parse(
    Array(
      """
      22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
      60 22 0:50 / /home/me/My\\040Notes rw,nosuid,nodev shared:9 master:2 - fuse.ubiquityfs iCloud.a.b rw
      61 22 0:50 /Documents/sub /bound rw - fuse.ubiquityfs iCloud.a.b rw
      62 60 0:51 / /home/me/My\\040Notes/Documents/other rw - tmpfs tmpfs rw
      a broken line
      """.utf8))

  private func locate(_ path: String) -> [String]? {
    ItemLocator.reference(Array(path.utf8), shown: PathBytes("x"), in: table).map {
      [$0.mountpoint.description, $0.path.description]
    }
  }

  @Test func theMountTableIsRead() {
    #expect(table.count == 4)
    #expect(String(decoding: table[1].mountpoint, as: UTF8.self) == "/home/me/My Notes")
    #expect(table[1].type == MountedFileSystem.ubiquityType)
    #expect(table[1].source == "iCloud.a.b")
  }

  @Test func itemsAreFoundInTheirMount() {
    #expect(locate("/home/me/My Notes") == ["/home/me/My Notes", ""])
    #expect(locate("/home/me/My Notes/a/b") == ["/home/me/My Notes", "a/b"])
    #expect(locate("/home/me/My Notes 2/a") == nil)
    #expect(locate("/home/me") == nil)
    #expect(locate("/") == nil)
  }

  @Test func whatIsMountedOverAMountIsNotInIt() {
    #expect(locate("/home/me/My Notes/Documents/other/x") == nil)
  }

  @Test func bindMountsLeadToTheMount() {
    #expect(locate("/bound") == ["/home/me/My Notes", "Documents/sub"])
    #expect(locate("/bound/x") == ["/home/me/My Notes", "Documents/sub/x"])
  }

  @Test func pathsOutsideAreNotFound() {
    for path in ["/", "/usr", "/no/such/file", ""] {
      do throws(ControlError) {
        _ = try ItemLocator.locate(PathBytes(path))
        Issue.record("\(path) was found")
      } catch {
        #expect(error.status == .notFound)
      }
    }
  }
}

/// Copies of a mount in the mount table of one namespace.
@Suite struct MountCopiesTests {
  /// `/home` is mounted whole and in part at other places.
  private static let parents = """
    22 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw
    30 22 8:2 / /home rw shared:2 - ext4 /dev/sda2 rw
    31 22 8:2 / /mnt/peer rw shared:2 - ext4 /dev/sda2 rw
    32 22 8:2 /me /mnt/part\\040of rw shared:2 - ext4 /dev/sda2 rw
    33 22 8:2 / /mnt/slave rw shared:3 master:2 - ext4 /dev/sda2 rw
    34 22 8:2 / /mnt/private rw - ext4 /dev/sda2 rw
    60 30 0:50 / /home/me/Notes rw shared:9 - fuse.ubiquityfs a.b rw

    """

  private func bindMount(_ lines: String, of path: String = "/home/me/Notes") -> String? {
    let table = MountTable.parse(Array((Self.parents + lines).utf8))
    return MountTable.bindMount(of: "0:50", besides: Array(path.utf8), in: table).map {
      String(decoding: $0.mountpoint, as: UTF8.self)
    }
  }

  @Test("a line of the mount table names the mount, its parent and its groups")
  func groups() throws {
    let table = MountTable.parse(Array(Self.parents.utf8))
    #expect(table.count == 7)
    let slave = try #require(table.first { $0.id == 33 })
    #expect(slave.parent == 22 && slave.peerGroup == 3 && slave.masterGroup == 2)
    let alone = try #require(table.first { $0.id == 34 })
    #expect(alone.peerGroup == nil && alone.masterGroup == nil)
  }

  @Test(
    "a copy that mount propagation made is no bind mount",
    arguments: [
      "61 31 0:50 / /mnt/peer/me/Notes rw shared:9 - fuse.ubiquityfs a.b rw",
      "61 32 0:50 / /mnt/part\\040of/Notes rw shared:9 - fuse.ubiquityfs a.b rw",
      "61 33 0:50 / /mnt/slave/me/Notes rw master:9 - fuse.ubiquityfs a.b rw",
      // Another mount.
      "61 30 0:51 / /home/me/Other rw shared:9 - fuse.ubiquityfs a.c rw",
    ])
  func propagatedCopy(line: String) {
    #expect(bindMount(line) == nil)
  }

  @Test(
    "a mount that stays when the first one is unmounted is a bind mount",
    arguments: [
      // On another directory, also below the same mount and below a peer.
      ("/home/me/bound", "61 30 0:50 / /home/me/bound rw shared:9 - fuse.ubiquityfs a.b rw"),
      ("/mnt/peer/bound", "61 31 0:50 / /mnt/peer/bound rw - fuse.ubiquityfs a.b rw"),
      ("/mnt/private/me/Notes", "61 34 0:50 / /mnt/private/me/Notes rw - fuse.ubiquityfs a.b rw"),
      // Of a directory of the mount.
      ("/mnt/peer/me/Notes", "61 31 0:50 /sub /mnt/peer/me/Notes rw - fuse.ubiquityfs a.b rw"),
      // On a mount that this table does not have.
      ("/hidden/me/Notes", "61 99 0:50 / /hidden/me/Notes rw - fuse.ubiquityfs a.b rw"),
    ])
  func stayingMount(path: String, line: String) {
    #expect(bindMount(line) == path)
  }

  @Test("unmounting does not propagate from a slave to its master, nor from a private mount")
  func oneWay() {
    let slave = "61 33 0:50 / /mnt/slave/me/Notes rw master:9 - fuse.ubiquityfs a.b rw"
    #expect(bindMount(slave, of: "/mnt/slave/me/Notes") == "/home/me/Notes")
    let alone = "61 34 0:50 / /mnt/private/me/Notes rw - fuse.ubiquityfs a.b rw"
    #expect(bindMount(alone, of: "/mnt/private/me/Notes") == "/home/me/Notes")
  }
}

/// The remains of a killed daemon.
@Suite struct ServedMountsTests {
  private static func daemon() throws -> Processes.Start {
    try #require(Processes.start(of: getpid()))
  }

  @Test("the list of served mounts is read as it was written")
  func roundTrip() throws {
    let scratch = try Scratch()
    let path = scratch.path + "/mounts.served"
    #expect(ServedMounts.read(path) == nil)
    let served = ServedMounts(
      daemon: try Self.daemon(),
      mounts: [
        .init(device: "0:50", mountpoint: "/home/me/My Notes", control: 7),
        .init(device: "0:51", mountpoint: "/a\nb\tc\\d/grün", control: nil),
      ])
    try served.write(path)
    #expect(ServedMounts.read(path) == served)
    try Files.replace(path, with: Array("nonsense".utf8))
    #expect(ServedMounts.read(path) == nil)
  }

  @Test("the watchdog finds a mount in the mount table by its number, its place and its type")
  func watchdogReadsTheMountTable() throws {
    let scratch = try Scratch()
    let table = scratch.path + "/mountinfo"
    // Longer than what is read at once, so that lines are cut anywhere.
    let others = (100..<400).map { number in
      "\(number) 22 0:\(number) / /other/\(number) rw shared:1 - tmpfs tmpfs rw\n"
    }
    let own = """
      22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
      60 22 0:50 / /home/me/My\\040Notes rw,nosuid shared:9 master:2 - fuse.ubiquityfs a.b rw
      61 22 0:51 / /other rw - tmpfs tmpfs rw
      62 22 0:5 / /fuse.ubiquityfs rw - fuse.sshfs fuse.ubiquityfs rw
      63 22 0:6 / /six rw - fuse.ubiquityfs a.c rw

      """
    try Files.replace(table, with: Array((others.joined() + own).utf8))
    func isThere(_ device: String, _ mountpoint: String) -> Bool {
      ServedMounts.Mount(device: device, mountpoint: mountpoint, control: nil).isInTable(table)
    }
    #expect(isThere("0:50", "/home/me/My Notes"))
    #expect(isThere("0:6", "/six"))
    // The number is free, or is another mount's.
    #expect(!isThere("0:52", "/home/me/My Notes"))
    #expect(!isThere("0:6", "/home/me/My Notes"))
    #expect(!isThere("0:51", "/other"))
    #expect(!isThere("0:5", "/fuse.ubiquityfs"))
    #expect(!isThere("0:50", "/home/me"))
    #expect(!isThere("0:60", "/six"))
    try Files.remove(table)
    #expect(!isThere("0:6", "/six"))
  }

  @Test("nothing is aborted for a daemon that lives, or that is gone")
  func nothingToFree() throws {
    let scratch = try Scratch()
    let path = scratch.path + "/" + ServedMounts.fileName
    let own = try Self.daemon()
    #expect(!Processes.isEnding(own))
    try ServedMounts(daemon: own, mounts: []).write(path)
    #expect(ServedMounts.release(state: scratch.path) == .free)
    let other = Processes.Start(number: own.number, ticks: own.ticks + 1)
    try ServedMounts(daemon: other, mounts: []).write(path)
    #expect(ServedMounts.release(state: scratch.path) == .free)
  }

  @Test("a zombie without other threads counts as ended")
  func zombie() async throws {
    var child: pid_t = 0
    var arguments: [UnsafeMutablePointer<CChar>?] = [strdup("true"), nil]
    defer { free(arguments[0]) }
    try #require(posix_spawnp(&child, "true", nil, nil, &arguments, environ) == 0)
    defer {
      var status: Int32 = 0
      waitpid(child, &status, 0)
    }
    let start = try #require(Processes.start(of: child))
    try await eventually("the child is a zombie") {
      Files.smallText("/proc/\(child)/status")?.contains("zombie") == true
    }
    #expect(!Processes.isEnding(start))
  }

  @Test("the next daemon does not wait for a killed one that waits for its answers")
  func releaseBySuccessor() async throws {
    let scratch = try Scratch()
    let path = scratch.path + "/" + ServedMounts.fileName
    // Its main thread ends, and another one stays, as where the kernel keeps a thread.
    let script =
      "import ctypes, os, threading, time; "
      + "threading.Thread(target=time.sleep, args=(600,)).start(); "
      + "ctypes.CDLL(None).syscall(93 if os.uname().machine == 'aarch64' else 60, 0)"
    var child: pid_t = 0
    let words: [String] = ["python3", "-c", script]
    var arguments: [UnsafeMutablePointer<CChar>?] = words.map { strdup($0) }
    arguments.append(nil)
    defer { for argument in arguments { free(argument) } }
    try #require(posix_spawnp(&child, "python3", nil, nil, &arguments, environ) == 0)
    defer {
      kill(child, SIGKILL)
      var status: Int32 = 0
      waitpid(child, &status, 0)
    }
    let killed = try #require(Processes.start(of: child))
    try await eventually("the main thread has ended") { Processes.isEnding(killed) }
    try ServedMounts(daemon: killed, keeper: try Self.daemon(), mounts: []).write(path)
    #expect(ServedMounts.release(state: scratch.path, milliseconds: 10) == .free)
    #expect(Processes.isEnding(killed))
  }

  @Test("a call that gets no answer is given up")
  func boundedCall() {
    let gate = Gate()
    #expect(BoundedCall.run(milliseconds: 20) { gate.wait() } == nil)
    gate.open()
    #expect(BoundedCall.run(milliseconds: 60_000) { 7 } == 7)
  }
}
