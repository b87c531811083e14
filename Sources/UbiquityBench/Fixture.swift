internal import Glibc

/// What several workloads work on. Made once on each side, removed after the last that needs it;
/// its name there is the case's.
enum Fixture: String, CaseIterable {
  /// One large file.
  case bigFile = "big"
  /// Files of 100 bytes, for walking.
  case tree
  /// Files of 4 KiB, for opening and renaming.
  case smallFiles = "small"
  /// A clone of the repository, with a working tree.
  case origin
  /// The repository's files, without git.
  case sources

  func make(at place: Place, sizes: Sizes, stage: Stage) throws -> Paths {
    let path = place.path(rawValue)
    switch self {
    case .bigFile:
      try Calls.writeFile(path, bytes: sizes.bigFile, with: Buffer(count: 1 << 20))
      return Paths([path])
    case .tree:
      return try Self.files(
        path, directories: sizes.treeDirectories, each: sizes.filesInDirectory, bytes: 100)
    case .smallFiles:
      return try Self.files(
        path, directories: sizes.smallDirectories, each: sizes.filesInDirectory, bytes: 4096)
    case .origin:
      try Program.run(["git", "clone", "--quiet", try Repository.path(stage, sizes), path])
      return Paths([path])
    case .sources:
      try Repository.extract(try Repository.archive(stage, sizes), to: path)
      return Paths([path])
    }
  }

  private static func files(_ path: String, directories: Int, each: Int, bytes: Int) throws -> Paths
  {
    let paths = try emptyDirectories(path, directories: directories, each: each)
    try Calls.createFiles(paths, bytes: bytes, with: Buffer(count: 4096))
    return paths
  }

  /// Makes directories, and gives the names of the files that are to be in them.
  static func emptyDirectories(_ path: String, directories: Int, each: Int) throws -> Paths {
    guard mkdir(path, 0o755) == 0 else { throw Failure.system("mkdir", path) }
    var names: [String] = []
    for directory in 0..<directories {
      let path = "\(path)/d\(directory)"
      guard mkdir(path, 0o755) == 0 else { throw Failure.system("mkdir", path) }
      for file in 0..<each { names.append("\(path)/file-\(file)") }
    }
    return Paths(names)
  }
}
