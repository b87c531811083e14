import ControlProtocol
import DaemonClient
import Platform
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
