internal import Catalog
internal import ControlProtocol
internal import Coordination
internal import Logging
internal import MetadataQueries
internal import Model
internal import Platform
internal import SystemPackage

/// What a query's thread does.
final class QueryRun {
  private let query: LiveQuery
  private let service: DaemonService
  private let output: QueryOutput
  private var results = QueryResults()
  private var pass: UInt32 = 0
  /// Of this pass.
  private var arrivals: [Arrival] = []
  private var count: UInt64 = 0

  init(_ query: LiveQuery, _ service: DaemonService, _ connection: ClientConnection) {
    self.query = query
    self.service = service
    output = QueryOutput(query, connection)
  }

  /// Until all was told or, of a query that goes on, until it is stopped.
  func run() {
    do {
      try gather()
      guard query.watches else { return }
      while let changes = query.nextChanges() {
        try look(at: changes)
        try output.flush()
        if query.pause() { return }
      }
    } catch is QueryStopped {
    } catch {
      service.logger.error("a query failed: \(error)")
    }
  }

  private func mounted() -> [MountedContainer] {
    (service.account?.sessions ?? []).filter { query.selection.mayTakeIn($0.id) }
      .compactMap { MountedContainer($0) }
  }

  // MARK: Gathering

  private func gather() throws {
    var failure: String?
    for container in mounted() {
      results.noteMount(container)
      do {
        let walk = QueryWalk(container, query.selection)
        for top in query.selection.tops(of: container.session.id) {
          try walk.visit(top) { try gather($0) }
        }
      } catch let error as Errno {
        failure = failure ?? "cannot query \"\(container.session.id)\": \(error)"
        retry(container.session.id, error)
      }
    }
    try output.end(count: count, error: failure)
  }

  private func gather(_ candidate: QueryCandidate) throws {
    guard !query.isStopped else { throw QueryStopped() }
    guard let item = try found(candidate) else { return }
    count += 1
    let number = results.newID()
    if query.watches {
      results[candidate.container.session.id, candidate.place] = QueryResults.Known(
        id: number, number: candidate.inode.number, fingerprint: item.hashValue, pass: 0)
    }
    try output.gathered(QueryResult(id: number, item: item))
  }

  /// What is told of it; nil if it does not fit, or is gone meanwhile.
  private func found(_ candidate: QueryCandidate) throws(Errno) -> QueryItem? {
    do throws(Errno) {
      guard try candidate.fits(query.matcher) else { return nil }
      return try candidate.item()
    } catch {
      guard error == .noSuchFileOrDirectory else { throw error }
      return nil
    }
  }

  /// The container is looked at again, unless it is closed by then.
  private func retry(_ container: ContainerID, _ error: Errno) {
    guard query.watches, service.account?.session(container)?.mountpoint != nil else { return }
    service.logger.warning("cannot query \"\(container)\": \(error)")
    _ = query.waitForStop(milliseconds: 1000)
    query.note(
      ItemEvent(
        time: Timestamp(nanoseconds: SystemClock().nanoseconds()), kind: .container,
        container: container, path: []))
  }

  // MARK: Changes

  private func look(at changes: QueryChanges) throws {
    let there = mounted()
    let whole =
      changes.isWhole ? Set(there.map(\.session.id)).union(results.containers) : []
    for id in whole.union(changes.parts.keys).sorted() {
      guard let container = there.first(where: { $0.session.id == id }) else {
        for (place, known) in results.remove(id) {
          try output.removed(QueryRemoval(id: known.id, path: results.path(of: place, in: id)))
        }
        continue
      }
      var part = changes.parts[id] ?? QueryChanges.Part()
      if whole.contains(id) { part.isWhole = true }
      do {
        try look(at: part, of: container)
      } catch let error as Errno {
        retry(id, error)
      }
    }
  }

  /// One that fits and was not told, or not at this place.
  private struct Arrival {
    let place: QueryPlace
    let number: InodeNumber
    /// Of very many they are asked for again.
    let item: QueryItem?
  }

  private typealias Departure = (place: QueryPlace, known: QueryResults.Known)

  private static let keptArrivals = 1000

  private func look(at part: QueryChanges.Part, of container: MountedContainer) throws {
    let id = container.session.id
    let walk = QueryWalk(container, query.selection)
    pass &+= 1
    arrivals = []
    var departures: [Departure] = []
    let (alone, trees) = try extent(of: part, walk)
    for tree in trees { try walk.visit(tree) { _ = try look($0) } }
    var pending = Array(alone)
    var seen = alone
    while let place = pending.popLast() {
      guard !trees.covers(place) else { continue }
      let (candidate, package) = try walk.candidateOrPackage(at: place)
      if let package, seen.insert(package).inserted { pending.append(package) }
      if let candidate, try look(candidate) { continue }
      if let known = results[id, place] { departures.append((place, known)) }
    }
    if !trees.isEmpty {
      for (place, known) in results.parts[id] ?? [:]
      where known.pass != pass && trees.covers(place) {
        departures.append((place, known))
      }
    }
    try follow(departures, walk)
    try settle(departures, walk)
    results.noteMount(container)
  }

  /// What left a place may be at another one already, of which no event has come yet: an item that
  /// changed, and moved right after. It is looked for there, so that it is one item.
  private func follow(_ departures: [Departure], _ walk: QueryWalk) throws {
    guard departures.count <= Self.keptArrivals else { return }
    let container = walk.container.session
    let found = Set(arrivals.map(\.number))
    for departure in departures where !found.contains(departure.known.number) {
      guard let names = try? container.catalog.path(of: departure.known.number) else { continue }
      let place = QueryPlace(names.map(\.bytes).joined(separator: [0x2F]))
      guard place != departure.place, results[container.id, place] == nil,
        let candidate = try walk.lookAgain(at: place),
        candidate.inode.number == departure.known.number
      else { continue }
      _ = try look(candidate)
    }
  }

  /// The places to be looked at alone, and those to be looked at with all below them.
  private func extent(
    of part: QueryChanges.Part, _ walk: QueryWalk
  ) throws(Errno) -> (Set<QueryPlace>, Set<QueryPlace>) {
    guard !part.isWhole else { return ([], query.selection.tops(of: walk.container.session.id)) }
    var places = part.places
    var trees: Set<QueryPlace> = []
    // Of what is no directory nothing is below: what was told needs not to be gone through.
    for tree in part.trees {
      if try walk.isLeaf(tree) { places.insert(tree) } else { trees.insert(tree) }
    }
    for move in part.moves {
      if try walk.isLeaf(move.new) {
        places.formUnion([move.old, move.new])
      } else {
        trees.formUnion([move.old, move.new])
      }
    }
    return (places, trees.withoutNested())
  }

  /// Whether it fits. What it was told as is seen to be there still; a change is told at once.
  private func look(_ candidate: QueryCandidate) throws -> Bool {
    guard !query.isStopped else { throw QueryStopped() }
    guard let item = try found(candidate) else { return false }
    let id = candidate.container.session.id
    let number = candidate.inode.number
    guard var known = results[id, candidate.place] else {
      arrivals.append(
        Arrival(
          place: candidate.place, number: number,
          item: arrivals.count < Self.keptArrivals ? item : nil))
      return true
    }
    let isChanged = known.fingerprint != item.hashValue
    known.fingerprint = item.hashValue
    known.number = number
    known.pass = pass
    results[id, candidate.place] = known
    if isChanged { try output.changed(QueryResult(id: known.id, item: item)) }
    return true
  }

  /// What left one place and came to another is one item that changed.
  private func settle(_ departures: [Departure], _ walk: QueryWalk) throws {
    let id = walk.container.session.id
    var left: [InodeNumber: UInt64] = [:]
    var gone: [UInt64: QueryPlace] = [:]
    for departure in departures {
      results[id, departure.place] = nil
      left[departure.known.number] = departure.known.id
      gone[departure.known.id] = departure.place
    }
    for arrival in arrivals {
      guard let item = try arrival.item ?? again(arrival, walk) else { continue }
      let old = left.removeValue(forKey: arrival.number)
      if let old { gone[old] = nil }
      let number = old ?? results.newID()
      results[id, arrival.place] = QueryResults.Known(
        id: number, number: arrival.number, fingerprint: item.hashValue, pass: pass)
      let result = QueryResult(id: number, item: item)
      if old == nil { try output.added(result) } else { try output.changed(result) }
    }
    for (number, place) in gone.sorted(by: { $0.key < $1.key }) {
      try output.removed(QueryRemoval(id: number, path: results.path(of: place, in: id)))
    }
  }

  private func again(_ arrival: Arrival, _ walk: QueryWalk) throws(Errno) -> QueryItem? {
    guard let candidate = try walk.candidate(at: arrival.place),
      candidate.inode.number == arrival.number
    else { return nil }
    return try found(candidate)
  }
}
