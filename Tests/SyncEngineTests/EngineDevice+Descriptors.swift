import Foundation

extension EngineDevice {
  /// How many files of the device this process has open that have no name: contents of removed
  /// files, and copies of open ones.
  func openWithoutName() throws -> Int {
    let names = try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")
    return names.filter { name in
      let target = try? FileManager.default.destinationOfSymbolicLink(
        atPath: "/proc/self/fd/\(name)")
      return target.map { $0.hasPrefix(directory) && $0.hasSuffix("(deleted)") } ?? false
    }.count
  }
}
