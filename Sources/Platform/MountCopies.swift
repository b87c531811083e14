internal import Glibc
internal import SystemPackage

extension MountTable {
  /// A process in another mount namespace that has a copy of the mount with this device and source,
  /// such as a process in a container. Nil if there is none, or none that this process may look at.
  package static func processWithCopy(of device: String, named source: String) -> Int32? {
    let own = Files.linkTarget("/proc/self/ns/mnt")
    var seen: Set<String> = []
    for name in (try? Files.names(in: "/proc")) ?? [] {
      guard let number = Int32(name), let place = Files.linkTarget("/proc/\(name)/ns/mnt"),
        place != own, seen.insert(place).inserted,
        let table = try? read(from: "/proc/\(name)/mountinfo")
      else { continue }
      let hasCopy = table.contains {
        $0.device == device && $0.source == source && $0.type == MountedFileSystem.ubiquityType
      }
      if hasCopy { return number }
    }
    return nil
  }
}
