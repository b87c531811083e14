import MountDriver
import Platform
import Testing

@Suite struct MountPlaceTests {
  private func mount(_ device: String, _ path: String, type: String) -> MountedFileSystem {
    let line = "36 35 \(device) / \(path) rw,nosuid - \(type) iCloud.org.example.notes rw"
    return MountTable.parse(Array(line.utf8))[0]
  }

  @Test("a mount is told from another one that was given its device number")
  func places() {
    let own = mount("0:40", "/home/me/Notes", type: MountedFileSystem.ubiquityType)
    let other = mount("0:40", "/home/me/Photos", type: MountedFileSystem.ubiquityType)
    let foreign = mount("0:40", "/home/me/Notes", type: "tmpfs")
    func place(_ table: [MountedFileSystem]) -> ContainerMount.Place {
      ContainerMount.place(of: "0:40", at: "/home/me/Notes", in: table)
    }
    #expect(place([own]) == .mounted)
    #expect(place([own, other]) == .mounted)
    #expect(place([other]) == .elsewhere)
    #expect(place([foreign]) == .gone)
    #expect(place([]) == .gone)
  }
}
