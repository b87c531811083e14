internal import Platform

/// Programs that ask where a file's holes are in order to copy it, and read nothing where there is one.
///
/// CONTRACT has SEEK_DATA and SEEK_HOLE tell which part of a placeholder is here. To who copies a file that
/// would be a lie: what is not here is no hole. Nothing in the call tells the two apart, so the program does,
/// by its file's name: these are told that all of it is data, and what they then read comes. They are those of
/// coreutils (as one program too), libarchive, GNU and QEMU that call lseek(2) so, and others that copy, to
/// whom it does no harm.
enum HoleCopiers {
  private static let names: Set<[UInt8]> = Set(
    [
      "cp", "mv", "install", "gcp", "gmv", "ginstall", "coreutils", "busybox", "toybox", "tar",
      "gtar", "bsdtar", "bsdcpio", "cpio", "qemu-img", "rsync",
    ].map { Array($0.utf8) })

  static func contain(_ caller: Caller) -> Bool {
    guard caller.process > 0, let path = Processes.executable(of: caller.process) else {
      return false
    }
    return names.contains(Array(path.split(separator: UInt8(ascii: "/")).last ?? []))
  }
}
