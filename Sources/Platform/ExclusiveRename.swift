internal import CLinux
internal import Glibc
package import SystemPackage

extension Files {
  /// `link(2)`: a second name for a file; fails with EEXIST where there is something.
  package static func link(_ from: String, _ to: String) throws(Errno) {
    try FaultPoint.check("path.link")
    _ = try retrying { Glibc.link(from, to) }
  }

  /// `renameat2(2)` with RENAME_NOREPLACE: fails with EEXIST where there is something.
  package static func renameExclusively(_ from: String, _ to: String) throws(Errno) {
    try FaultPoint.check("path.rename")
    _ = try retrying {
      linux_renameat2(AT_FDCWD, from, AT_FDCWD, to, linux_rename_noreplace)
    }
  }
}
