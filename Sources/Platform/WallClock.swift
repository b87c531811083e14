internal import Glibc

/// The wall clock, behind a protocol so that tests can set it.
package protocol WallClock: Sendable {
  /// Nanoseconds since 1970-01-01 00:00 UTC, modulo 2^64 as in `Timestamp`.
  func nanoseconds() -> Int64
}

package struct SystemClock: WallClock {
  package init() {}

  package func nanoseconds() -> Int64 {
    var time = timespec()
    clock_gettime(CLOCK_REALTIME, &time)
    return Int64(time.tv_sec) &* 1_000_000_000 &+ Int64(time.tv_nsec)
  }
}

/// Nanoseconds of a clock that only goes forward; for intervals.
package func monotonicNanoseconds() -> UInt64 {
  var time = timespec()
  clock_gettime(CLOCK_MONOTONIC, &time)
  return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
}

/// Nanoseconds that the calling thread has had a processor.
package func threadProcessorNanoseconds() -> UInt64 {
  var time = timespec()
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
  return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
}
