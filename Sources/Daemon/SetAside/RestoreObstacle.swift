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
