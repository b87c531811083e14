internal import Glibc
internal import Model
internal import SystemPackage

/// Why an item was not copied, or not with all that belongs to it.
struct RestoreObstacle: Error {
  let text: String

  static func doing<Value>(
    _ what: String, _ body: () throws(Errno) -> Value
  ) throws(RestoreObstacle) -> Value {
    do throws(Errno) { return try body() } catch {
      throw RestoreObstacle(text: "it \(what): \(error)")
    }
  }
}

extension Timestamp {
  var timespec: Glibc.timespec {
    let second: Int64 = 1_000_000_000
    let (quotient, remainder) = nanoseconds.quotientAndRemainder(dividingBy: second)
    return remainder < 0
      ? Glibc.timespec(tv_sec: Int(quotient - 1), tv_nsec: Int(remainder + second))
      : Glibc.timespec(tv_sec: Int(quotient), tv_nsec: Int(remainder))
  }
}
