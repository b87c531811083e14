import Testing

/// Everything below runs the real program on real mounts, one test at a time: two cores carry one
/// daemon under load well, and bounds on traffic mean something only where nothing else runs.
@Suite(.serialized) enum EndToEnd {}
