import Catalog
import ContentStore
import Coordination
import FileSystem
import Glibc
import Model
import MountDriver
import Platform
import Subprocess
import SystemPackage

/// A container mounted in a directory of its own. Only other processes may look into the mount:
/// this one serves it, and could wait for itself.
final class Mounted: Sendable {
  let directory: String
  let path: String
  let mount: ContainerMount
  let coordinator: ContainerCoordinator

  init(options: [String] = [], foldsCase: Bool = false) throws {
    var template = Array("/tmp/mount-tests-XXXXXX".utf8CString)
    guard mkdtemp(&template) != nil else { throw Errno(rawValue: errno) }
    directory = template.withUnsafeBufferPointer { String(cString: $0.baseAddress!) }
    path = directory + "/mount"
    try Files.makeDirectory(path)
    let catalog = try ContainerCatalog(
      path: directory + "/catalog.sqlite", owner: getuid(), group: getgid(), clock: SystemClock())
    let content = try ContentFiles(directory: directory + "/content")
    coordinator = ContainerCoordinator(
      container: try ContainerID("iCloud.com.example.test"), catalog: catalog, content: content)
    mount = ContainerMount(
      fileSystem: ContainerFileSystem(
        coordinator: coordinator, clock: SystemClock(), foldsCase: foldsCase),
      mountpoint: path,
      options: try MountOptions(parsing: options)
    ) { line in print(line) }
    coordinator.setInvalidator(mount)
    try mount.start()
  }

  deinit {
    mount.detach()
    try? coordinator.catalog.close()
    try? Files.removeTree(directory)
  }

  /// False while a program still uses the mount.
  func unmountedUnlessBusy() throws -> Bool {
    do {
      try mount.unmount()
      return true
    } catch {
      guard case .busy = error else { throw error }
      return false
    }
  }

  struct Outcome: Sendable {
    let status: Int
    let output: String
  }

  /// Runs a script in the mount, for ten minutes at most; gives its exit status and what it
  /// printed.
  func run(_ script: String) async throws -> Outcome {
    let result = try await Subprocess.run(
      .path("/usr/bin/timeout"),
      arguments: ["600", "/bin/bash", "-c", "set -e; cd '\(path)'; exec 2>&1; " + script],
      output: .string(limit: 1 << 20))
    let status: Int
    switch result.terminationStatus {
    case .exited(let code): status = Int(code)
    default: status = -1
    }
    return Outcome(status: status, output: result.standardOutput)
  }
}
