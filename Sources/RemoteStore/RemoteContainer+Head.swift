internal import Backend
package import Model
internal import Platform

/// The state of the store at the position of this device.
enum HeadState: Equatable {
  case unknown
  /// The object has the hash that this device knows.
  case same
  case other
  case missing
  case failed(RemoteError)
}

/// The first bytes of a long segment that this device read or wrote. Two segments never begin
/// alike: each is sealed with a nonce of its own. So the head of a log need not be read whole each
/// time.
struct SegmentBeginning {
  static let length = 65_536

  /// Of the whole segment, as positions have it.
  let hash: [UInt8]
  private let beginning: [UInt8]

  /// Nil: it is short, and is read whole.
  init?(_ stored: [UInt8], hash: [UInt8]) {
    guard stored.count >= Self.length else { return nil }
    self.hash = hash
    beginning = Array(stored[..<Self.length])
  }

  func isOf(_ bytes: [UInt8]) -> Bool { bytes == beginning }
}

extension RemoteContainer {
  func headState(_ position: LogPosition) async -> HeadState {
    guard position.sequence > 0 else { return .same }
    let name = ObjectName.segment(incarnation, position.sequence)
    do throws(RemoteError) {
      if let known = beginning.withLock({ $0 }), known.hash == position.hash {
        guard let bytes = try await beginningOfSegment(name) else { return .missing }
        return known.isOf(bytes) ? .same : .other
      }
      guard let stored = try await segmentBytes(name) else { return .missing }
      guard Self.hash(stored) == position.hash else { return .other }
      remember(stored, at: position)
      return .same
    } catch {
      return .failed(error)
    }
  }

  /// Throws `.rolledBack` unless the store has the segment at the position and all between `start`
  /// and it. Snapshots do not count. A list may be wrong; the object itself decides.
  package func requireLog(
    after start: UInt64, upTo position: LogPosition
  ) async throws(RemoteError) {
    switch await headState(position) {
    case .same: break
    case .failed(let error): throw error
    case .missing, .other, .unknown:
      throw .rolledBack(object: ObjectName.segment(incarnation, position.sequence))
    }
    let log = ObjectName.log(incarnation)
    // All up to it are there.
    var found = start
    while found < position.sequence {
      let listed = Set(
        try await segmentKeys(after: found, limit: 1000).compactMap {
          ObjectName.sequence($0.dropFirst(log.count))
        })
      var last = min(listed.max() ?? position.sequence, position.sequence)
      if last <= found { last = position.sequence }
      while found < last {
        let name = ObjectName.segment(incarnation, found + 1)
        if !listed.contains(found + 1) {
          guard try await beginningOfSegment(name) != nil else { throw .rolledBack(object: name) }
        }
        found += 1
      }
    }
  }

  func remember(_ stored: [UInt8], at position: LogPosition) {
    guard let new = SegmentBeginning(stored, hash: position.hash) else { return }
    beginning.withLock { $0 = new }
  }

  private func beginningOfSegment(_ name: String) async throws(RemoteError) -> [UInt8]? {
    do throws(StoreError) {
      return try await store.get(name, range: 0..<UInt64(SegmentBeginning.length))
    } catch .notFound {
      return nil
    } catch {
      throw RemoteError(error)
    }
  }
}
