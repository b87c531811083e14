import Glibc
import Platform
import SystemPackage
import Testing

@Suite struct InodeWatchesTests {
  /// What this process watches is found, and what is in another file system is not.
  @Test func watchesOfThisProcessAreFound() throws {
    let scratch = try Scratch()
    var status = Glibc.stat()
    try #require(stat(scratch.path, &status) == 0)
    let device = status.st_dev
    let (major, minor) = (device >> 8 & 0xFFF, device & 0xFF | (device >> 12) & 0xFFF00)
    #expect(!InodeWatches.read(ofDevice: "\(major):\(minor)").contains(UInt64(status.st_ino)))
    let watcher = inotify_init1(Int32(IN_CLOEXEC))
    defer { close(watcher) }
    try #require(inotify_add_watch(watcher, scratch.path, UInt32(IN_CREATE)) > 0)
    let watches = InodeWatches.read(ofDevice: "\(major):\(minor)")
    #expect(watches.contains(UInt64(status.st_ino)) && !watches.isEverything)
    #expect(!InodeWatches.read(ofDevice: "4095:7").contains(UInt64(status.st_ino)))
    #expect(InodeWatches.read(ofDevice: "nonsense").isEmpty)
  }
}
