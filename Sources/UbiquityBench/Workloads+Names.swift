internal import Glibc

extension Workloads {
  static func walking(_ sizes: Sizes) -> [Workload] {
    let count = sizes.treeFiles
    let passes = 5
    let warm: Workload.Step = { place, _ in
      _ = try Calls.walk(place.path(Fixture.tree.rawValue))
      try Calls.lookAtFiles(place.paths(.tree))
    }
    /// On the native side as it is, with its directories and inodes cached.
    let fresh: Workload.Step = { place, stage in
      if place.kind == .mount { try stage.remount() } else { try warm(place, stage) }
    }
    func workload(
      _ name: String, _ title: String, _ target: Double, passes: Int = 1,
      prepare: @escaping Workload.Step, _ body: @escaping (Place) throws -> Void
    ) -> Workload {
      Workload(
        name: name, title: title, target: target, operations: count * passes, operation: "file",
        fixtures: [.tree], prepare: prepare,
        body: { place, _ in for _ in 0..<passes { try body(place) } })
    }
    func walk(_ place: Place) throws {
      guard try Calls.walk(place.path(Fixture.tree.rawValue)) == count + sizes.treeDirectories
      else { throw Failure("the walk did not see every file") }
    }
    func tree(_ place: Place) -> String { place.path(Fixture.tree.rawValue) }
    return [
      workload("walk-warm", "walk, warm", 1.1, passes: passes, prepare: warm, walk),
      workload(
        "lstat-warm", "lstat of every file, warm", 1.1, passes: passes, prepare: warm,
        { try Calls.lookAtFiles($0.paths(.tree)) }),
      workload(
        "find-warm", "find that looks at every file, warm", 1.1, prepare: warm,
        { try Program.run(["find", tree($0), "-size", "+1G"]) }),
      workload(
        "ls-warm", "ls -lR, warm", 2,
        prepare: { place, _ in try Program.run(["ls", "-lR", tree(place)]) },
        { try Program.run(["ls", "-lR", tree($0)]) }),
      workload("walk-fresh", "walk after a fresh mount", 4, prepare: fresh, walk),
      workload(
        "lstat-fresh", "lstat of every file after a fresh mount", 6, prepare: fresh,
        { try Calls.lookAtFiles($0.paths(.tree)) }),
    ]
  }

  /// Those that remove come last of all; see `Place.discard`.
  static func names(_ sizes: Sizes, removing: Bool) -> [Workload] {
    let buffer = Buffer(count: 4096)
    var paths: [String: Paths] = [:]
    /// Names for new files below the directory `scratch`.
    func scratch(_ place: Place) throws -> Paths {
      try Fixture.emptyDirectories(
        place.path("scratch"), directories: sizes.smallDirectories, each: sizes.filesInDirectory)
    }
    func made(_ place: Place) -> Paths { paths[place.directory] ?? Paths([]) }
    func flat(_ place: Place, _ count: Int) throws -> Paths {
      try place.makeDirectory("scratch")
      return Paths((0..<count).map { place.path("scratch/entry-\($0)") })
    }
    let clear: Workload.Step = { place, _ in try place.discard("scratch") }
    let small = sizes.smallFiles
    if removing {
      return [
        Workload(
          name: "unlink", title: "unlink", target: 3, operations: small, operation: "unlink",
          prepare: { place, stage in
            let names = try scratch(place)
            try Calls.createFiles(names, bytes: 4096, with: buffer)
            paths[place.directory] = names
            try stage.settle()
          },
          body: { place, _ in try Calls.removeFiles(made(place)) }, finish: clear),
        Workload(
          name: "mkdir-rmdir", title: "mkdir + rmdir", target: 3, operations: sizes.directories,
          operation: "directory",
          prepare: { place, stage in
            paths[place.directory] = try flat(place, sizes.directories)
            try stage.settle()
          },
          body: { place, _ in
            try Calls.makeDirectories(made(place))
            try Calls.removeDirectories(made(place))
          }, finish: clear),
      ]
    }
    return [
      Workload(
        name: "open-read-close", title: "open + read 4 KiB + close", target: 5, operations: small,
        operation: "file", fixtures: [.smallFiles],
        prepare: { place, _ in
          try Calls.readFiles(place.paths(.smallFiles), bytes: 4096, with: buffer)
        },
        body: { place, _ in
          try Calls.readFiles(place.paths(.smallFiles), bytes: 4096, with: buffer)
        }),
      Workload(
        name: "rename", title: "rename", target: 3, operations: small, operation: "rename",
        fixtures: [.smallFiles],
        prepare: { place, stage in
          let old = place.paths(.smallFiles)
          paths[place.directory] = Paths(
            (0..<old.count).map { String(cString: old[$0]) + "-renamed" })
          try stage.settle()
        },
        body: { place, _ in try Calls.renameFiles(place.paths(.smallFiles), to: made(place)) },
        finish: { place, _ in try Calls.renameFiles(made(place), to: place.paths(.smallFiles)) }),
      Workload(
        name: "create-write-close", title: "create + write 4 KiB + close", target: 4,
        operations: small, operation: "file",
        prepare: { place, stage in
          paths[place.directory] = try scratch(place)
          try stage.settle()
        },
        body: { place, _ in try Calls.createFiles(made(place), bytes: 4096, with: buffer) },
        finish: clear),
      Workload(
        name: "create-fsync", title: "create + 4 KiB + fsync", target: 2,
        operations: sizes.synchronizedFiles, operation: "file",
        prepare: { place, stage in
          paths[place.directory] = try flat(place, sizes.synchronizedFiles)
          try stage.settle()
        },
        body: { place, _ in
          try Calls.createFiles(made(place), bytes: 4096, with: buffer, synchronized: true)
        }, finish: clear),
    ]
  }
}
