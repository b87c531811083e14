internal import Glibc

extension Workloads {
  static func programs(_ sizes: Sizes, removing: Bool) -> [Workload] {
    let buffer = Buffer(count: 1 << 16)
    func origin(_ place: Place) -> String { place.path(Fixture.origin.rawValue) }
    let clone: Workload.Step = { place, _ in
      try Program.run(
        [
          "git", "clone", "--quiet", "--local", "--no-hardlinks", origin(place),
          place.path("clone"),
        ]
      )
    }
    let newClone: Workload.Step = { place, stage in
      try clone(place, stage)
      try stage.settle()
    }
    let extract: Workload.Step = { place, stage in
      try Repository.extract(Repository.archive(stage, sizes), to: place.path("extracted"))
    }
    let settle: Workload.Step = { _, stage in try stage.settle() }
    let files = sizes.sourceFiles
    var commits: [String: String] = [:]
    if removing {
      return [
        Workload(
          name: "rm-tree", title: "rm -rf of a source tree", target: 3, operations: files,
          operation: "file",
          prepare: { place, stage in
            try extract(place, stage)
            try stage.settle()
          },
          body: { place, _ in try place.removeTree("extracted") })
      ]
    }
    return [
      Workload(
        name: "git-clone", title: "git clone --local --no-hardlinks", target: 3, operations: files,
        operation: "file", fixtures: [.origin], prepare: settle, body: clone,
        finish: { place, _ in try place.discard("clone") }),
      Workload(
        name: "git-checkout", title: "git checkout of another commit", target: 2.5,
        operations: files, operation: "file", fixtures: [.origin],
        prepare: { place, stage in
          commits[place.directory] = try Repository.middle(of: origin(place))
          try stage.settle()
        },
        body: { place, _ in
          try Program.git("checkout", "--quiet", commits[place.directory] ?? "", at: origin(place))
        },
        finish: { place, _ in try Program.git("checkout", "--quiet", "-", at: origin(place)) }),
      Workload(
        name: "git-status-first", title: "git status, first after a clone", target: 1.6,
        operations: files, operation: "file", fixtures: [.origin], prepare: newClone,
        body: { place, _ in try Program.git("status", "--porcelain", at: place.path("clone")) },
        finish: { place, _ in try place.discard("clone") }),
      Workload(
        name: "git-status-again", title: "git status, again (five times)", target: 1.3,
        operations: files * 5, operation: "file", fixtures: [.origin],
        prepare: { place, stage in
          try newClone(place, stage)
          // A second later than the clone's own writes, so that git trusts the times in its index.
          sleep(1)
          for _ in 0..<2 { try Program.git("status", "--porcelain", at: place.path("clone")) }
        },
        body: { place, _ in
          for _ in 0..<5 { try Program.git("status", "--porcelain", at: place.path("clone")) }
        },
        finish: { place, _ in try place.discard("clone") }),
      Workload(
        name: "tar-extract", title: "tar extract", target: 4, operations: files, operation: "file",
        prepare: { _, stage in
          _ = try Repository.archive(stage, sizes)
          try stage.settle()
        },
        body: extract, finish: { place, _ in try place.discard("extracted") }),
      Workload(
        name: "tar-read", title: "tar read", target: 3.5, operations: files, operation: "file",
        fixtures: [.sources],
        prepare: { place, _ in
          try Program.drain(
            ["tar", "cf", "-", "-C", place.directory, Fixture.sources.rawValue], with: buffer)
        },
        // Into a pipe: given /dev/null, tar reads no file at all.
        body: { place, _ in
          try Program.drain(
            ["tar", "cf", "-", "-C", place.directory, Fixture.sources.rawValue], with: buffer)
        }),
    ]
  }
}
