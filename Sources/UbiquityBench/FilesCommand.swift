internal import ArgumentParser
internal import Glibc

struct FilesCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "files",
    abstract: "Make very many files, walk over them, and watch the daemon's memory.")

  @OptionGroup var place: PlaceOptions
  @Option(help: "How many files.") var count = 1_000_000
  @Option(help: "In how many directories.") var directories = 1000
  @Option(help: "How many bytes in each.") var bytes = 0
  @Option(help: "How many files in one directory, besides; 0 for none.") var wide: Int?
  @Option(help: "How many seconds to leave the daemon alone, in the end.") var calm = 60
  @Option(help: "How much the daemon may hold then, and after find, in MiB.") var limit = 150

  func validate() throws {
    guard count > 0, directories > 0, bytes >= 0, bytes <= 4096, calm >= 0 else {
      throw ValidationError("Amounts are positive, and bytes at most 4096.")
    }
  }

  func run() throws {
    let report = try place.withStage { stage in try ManyFiles(stage: stage, command: self).run() }
    try place.publish(report.text, json: report)
    if !report.isMet { throw ExitCode.failure }
  }
}

private struct ManyFiles {
  let stage: Stage
  let command: FilesCommand

  func run() throws -> FilesReport {
    var steps: [FilesStep] = []
    func both(
      _ name: String, _ operations: Int, before: () throws -> Void = {},
      _ body: (Place) throws -> Void
    ) throws {
      let native = try seconds { try body(stage.native) }
      try stage.settle()
      try before()
      let mount = try seconds { try body(stage.mount) }
      let step = FilesStep(
        name: name, operations: operations, native: native, mount: mount,
        memory: try Memory(process: stage.daemon))
      say(step.line)
      steps.append(step)
      try stage.settle()
    }
    let buffer = Buffer(count: 4096)
    let wide = command.wide ?? command.count
    let atStart = try Memory(process: stage.daemon)
    let each = (command.count + command.directories - 1) / command.directories
    let trees: [(name: String, what: String, directories: Int, each: Int)] =
      [("many", "in \(command.directories) directories", command.directories, each)]
      + (wide > 0 ? [("wide", "in one directory", 1, wide)] : [])
    for tree in trees {
      let count = tree.directories * tree.each
      try both("create \(count) files \(tree.what)", count) { place in
        let paths = try Fixture.emptyDirectories(
          place.path(tree.name), directories: tree.directories, each: tree.each)
        try Calls.createFiles(paths, bytes: command.bytes, with: buffer)
      }
      try both("find over them after a fresh mount", count, before: stage.remount) {
        try find($0, tree.name, count)
      }
      try both("find again", count) { try find($0, tree.name, count) }
    }
    sleep(UInt32(command.calm))
    return FilesReport(
      conditions: try stage.conditions(), limitMiB: command.limit, atStart: atStart, steps: steps,
      calm: command.calm, afterCalm: try Memory(process: stage.daemon))
  }

  /// Looks at every file, in a program of its own.
  private func find(_ place: Place, _ name: String, _ expected: Int) throws {
    let seen = try Program.output(
      ["find", place.path(name), "-type", "f", "-size", "-9", "-printf", "."]
    ).count
    guard seen == expected else {
      throw Failure("find saw \(seen) of \(expected) files in \(place.path(name))")
    }
  }
}
