extension Timestamp {
  /// The first whole second that can be said; below it seconds and the part of a second, taken
  /// apart by rounding down, cannot be put together again.
  package static let earliest = Timestamp(nanoseconds: -9_223_372_036_000_000_000)

  /// Of a time that was not checked: what is before `earliest` becomes that.
  package init(clamping nanoseconds: Int64) {
    self.init(nanoseconds: max(nanoseconds, Self.earliest.nanoseconds))
  }
}
