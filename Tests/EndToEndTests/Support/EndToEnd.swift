import Testing

/// Everything below runs the real program on real mounts, one test at a time: two cores carry few
/// daemons under load. `make test` has two such runs side by side, each of other suites.
@Suite(.serialized) enum EndToEnd {}
