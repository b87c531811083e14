/// Something that is done on both sides and timed.
struct Workload {
  typealias Step = (Place, Stage) throws -> Void

  let name: String
  /// For people.
  let title: String
  /// The ratio to native that is aimed at.
  let target: Double?
  /// What counts are divided by, and what it is called.
  let operations: Int
  let operation: String
  var fixtures: [Fixture] = []
  /// Before the clock starts; each time.
  var prepare: Step = { _, _ in }
  let body: Step
  /// After the clock has stopped; each time.
  var finish: Step = { _, _ in }
}

enum Workloads {
  /// In an order in which those that share a fixture stand together, and those that remove come
  /// last.
  static func all(_ sizes: Sizes) -> [Workload] {
    reading(sizes) + writing(sizes) + walking(sizes) + names(sizes, removing: false)
      + programs(sizes, removing: false) + names(sizes, removing: true)
      + programs(sizes, removing: true)
  }
}
