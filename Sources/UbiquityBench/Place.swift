internal import Glibc
internal import Platform

/// One of the two sides, and what has been put there for workloads to work on.
final class Place: @unchecked Sendable {
  enum Kind: String { case native, mount }

  let kind: Kind
  let directory: String
  private var prepared: [Fixture: Paths] = [:]
  private var discarded = 0

  init(_ kind: Kind, directory: String) {
    self.kind = kind
    self.directory = directory
  }

  func path(_ name: String) -> String { directory + "/" + name }

  /// The paths of what a fixture holds; made by `prepare`.
  func paths(_ fixture: Fixture) -> Paths { prepared[fixture] ?? Paths([]) }

  func prepare(_ fixture: Fixture, sizes: Sizes, stage: Stage) throws {
    guard prepared[fixture] == nil else { return }
    prepared[fixture] = try fixture.make(at: self, sizes: sizes, stage: stage)
  }

  func remove(_ fixture: Fixture) throws {
    guard prepared.removeValue(forKey: fixture) != nil else { return }
    try discard(fixture.rawValue)
  }

  func removeTree(_ name: String) throws { try Program.run(["rm", "-rf", path(name)]) }

  /// Puts a tree that has served aside. It is removed when all is measured: for minutes ext4 steps
  /// over the numbers of inodes that were removed, which would make every later creation slow.
  func discard(_ name: String) throws {
    discarded += 1
    let new = path("discarded-\(discarded)")
    guard rename(path(name), new) == 0 else { throw Failure.system("rename", path(name)) }
  }

  func makeDirectory(_ name: String) throws {
    guard mkdir(path(name), 0o755) == 0 else { throw Failure.system("mkdir", path(name)) }
  }
}

/// How much of everything.
struct Sizes {
  let bigFile: Int
  let randomReads: Int
  let written: Int
  let randomWrites: Int
  let synchronizedWrites: Int
  let treeDirectories: Int
  let smallDirectories: Int
  let directories: Int
  let synchronizedFiles: Int
  let sourceFiles: Int
  /// Of a tree or of the small files, in each directory.
  let filesInDirectory = 100

  var treeFiles: Int { treeDirectories * filesInDirectory }
  var smallFiles: Int { smallDirectories * filesInDirectory }

  init(scale: Double) {
    func part(_ count: Int) -> Int { max(1, Int(Double(count) * scale)) }
    bigFile = part(1024) << 20
    randomReads = part(100_000)
    written = part(1024) << 20
    randomWrites = part(20_000)
    synchronizedWrites = part(500)
    treeDirectories = part(200)
    smallDirectories = part(100)
    directories = part(5_000)
    synchronizedFiles = part(500)
    sourceFiles = part(2_000)
  }
}

/// Runs `body` on a thread that nobody joins.
func inBackground(_ body: @escaping @Sendable () -> Void) { _ = startThread(body) }
