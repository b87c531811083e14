internal import CLinux
package import SystemPackage

extension Files {
  /// Whether the path is on a file system that shows files of another one. Source: statfs(2).
  package static func isOnStackedFileSystem(_ path: String) throws(Errno) -> Bool {
    let type = try retrying { linux_file_system_type(path) }
    // overlayfs; FUSE, which may pass through to another; ecryptfs.
    return [0x794C_7630, 0x6573_5546, 0xF15F].contains(type)
  }
}
