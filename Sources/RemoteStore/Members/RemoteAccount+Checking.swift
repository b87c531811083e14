internal import Backend
internal import Platform

/// The findings of a check of what every device needs to read an account.
package struct MembersCheck: Equatable, Sendable {
  package struct Damage: Equatable, Sendable {
    package let object: String
    package let reason: String
  }

  package var objects: UInt64 = 0
  /// Objects that the store did not have and were put again.
  package var repaired: UInt64 = 0
  package var damaged: [Damage] = []
}

/// The part of `store verify` that belongs to no container.
extension RemoteAccount {
  /// Compares each entry of the member log, and `format`, with what this device knows. A missing
  /// one is put again: existing devices read only what is new, but a new device needs all of them.
  /// Throws only if the store fails.
  package func checkMembers() async throws(RemoteError) -> MembersCheck {
    let known = keys.membership
    var result = MembersCheck()
    for (index, stored) in known.stored.enumerated() {
      let object = ObjectName.member(UInt64(index) + 1)
      result.objects += 1
      let found: [UInt8]?
      do throws(RemoteError) {
        found = try await Self.small(object, in: store)
      } catch .damaged(let object, let reason) {
        result.damaged.append(MembersCheck.Damage(object: object, reason: reason))
        continue
      }
      if found == stored { continue }
      if found == nil, try await memberLog.putOnce(object, stored) {
        result.repaired += 1
      } else {
        result.damaged.append(
          MembersCheck.Damage(
            object: object, reason: "it differs from the entry that this device read there"))
      }
    }
    result.objects += 1
    // A device that does not know the newest entry must not put an older `format`.
    guard result.damaged.isEmpty, !known.format.isEmpty else { return result }
    if try await Self.storedFormat(store) != known.format {
      try await memberLog.keepFormat()
      result.repaired += 1
    }
    return result
  }
}
