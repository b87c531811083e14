internal import CLinux
internal import Glibc
package import SystemPackage

/// Taking mounts away.
package enum Unmounting {
  /// `umount2(2)`: EBUSY while it is used, EPERM without CAP_SYS_ADMIN.
  package static func unmount(_ path: String) throws(Errno) {
    _ = try retrying { linux_umount2(path, 0) }
  }

  /// Runs `fusermount3`, silently, and gives its exit status, or -1 when it could not be run.
  package static func runHelper(_ arguments: [String]) -> Int32 {
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    defer { posix_spawn_file_actions_destroy(&actions) }
    for descriptor in Int32(0)...2 {
      posix_spawn_file_actions_addopen(&actions, descriptor, "/dev/null", O_RDWR, 0)
    }
    var words: [UnsafeMutablePointer<CChar>?] = (["fusermount3"] + arguments).map { strdup($0) }
    words.append(nil)
    defer { for word in words { free(word) } }
    var process: pid_t = 0
    guard posix_spawnp(&process, "fusermount3", &actions, nil, words, environ) == 0 else {
      return -1
    }
    var status: Int32 = 0
    while waitpid(process, &status, 0) < 0 { guard errno == EINTR else { return -1 } }
    return status & 0x7F == 0 ? (status >> 8) & 0xFF : -1
  }

  /// Has the kernel write what it holds back for the file system of `path`: pages that were changed
  /// through a mapping. `syncfs(2)`.
  package static func synchronizeFileSystem(of path: String) throws(Errno) {
    let directory = try OpenFile.open(path, flags: O_RDONLY | O_DIRECTORY)
    _ = try retrying { linux_syncfs(directory.descriptor) }
  }
}
