/// What listing a directory in pieces has to give, whatever changes meanwhile: each name that is
/// there all the time once, and no name that never was. Source: readdir(3p).
package struct ReferenceListing {
  private static let dots: Set<Name> = [Name("."), Name("..")]

  /// There since the listing began, or before.
  private var steady: Set<Name> = []
  /// There at some time since.
  private var ever: Set<Name> = []
  /// Given, in order.
  private var given: [Name] = []

  package init() {}

  package mutating func rewind(_ names: some Sequence<Name>) {
    steady = Set(names).union(Self.dots)
    ever = steady
    given = []
  }

  package mutating func changed(_ name: Name, isThere: Bool) {
    steady.remove(name)
    if isThere { ever.insert(name) }
  }

  /// A piece came; `isEnd` when there is no more.
  package mutating func check(_ piece: [Name], isEnd: Bool) -> String? {
    for name in piece {
      guard ever.contains(name) else { return "lists \(name), which never was there" }
      if steady.contains(name), given.contains(name) { return "lists \(name) twice" }
      given.append(name)
    }
    guard isEnd, let missing = steady.subtracting(given).min() else { return nil }
    return "misses \(missing)"
  }

  /// Back to what was given after so many quarters of it.
  package mutating func seek(quarters: Int, names: some Sequence<Name>) {
    let kept = given.count * quarters / 4
    guard kept > 0 else { return rewind(names) }
    given.removeLast(given.count - kept)
  }
}
