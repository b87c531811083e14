package import Backend
package import RecordFormat
package import SystemPackage

/// Why the account's data could not be read or written.
package enum RemoteError: Error, Equatable, Sendable, CustomStringConvertible {
  /// The backend failed; it is intact as far as is known.
  case store(StoreError)
  /// The backend at this place holds no account.
  case noAccount(String)
  /// The backend at this place lists an object of an account, but not its `format`.
  case formatMissing(String, object: String)
  case wrongSecret
  /// The secret was the one of this account. The account has another one since.
  case secretChanged
  /// This device was removed from the account by another one.
  case removed(by: Member)
  /// The account leaves this store for another one.
  case moved(to: String)
  /// The target of a move has objects of another account, or of another history of this one.
  case targetTaken(String)
  /// This device has not joined the account, so that nobody would accept what it writes.
  case notMember
  /// An object names an entry of the member log that the backend does not show.
  case membersBehind(object: String, entry: UInt64)
  /// A device wrote an object that is no member of the account, or none that can be told.
  case unsigned(object: String, reason: String)
  /// An object is sealed under a key that this device was not given.
  case epochUnknown(object: String)
  /// The text is no secret; the reason says why.
  case badSecret(String)
  /// An object was written by a newer release.
  case newerFormat(object: String, version: UInt32)
  /// An object is not what the account's devices wrote. Nothing of it was used.
  case damaged(object: String, reason: String)
  /// The segments after this device's position are no longer kept: a snapshot has what they said.
  case logRemoved(object: String)
  /// A pack is not there: it is lost, or what it held was brought elsewhere since.
  case packMissing(object: String)
  /// The log is not the one that this device knows: the backend went back to an earlier state.
  case rolledBack(object: String)
  /// A device of the account deleted the container.
  case deleted(ContainerDeletion)
  /// A file got shorter while it was read.
  case changedWhileReading
  /// A local file could not be read.
  case file(Errno)
  /// The changes do not fit into one segment.
  case tooLarge(String)
  /// The changes break a rule of the format. The reason says which.
  case malformed(String)
  /// The caller's own lookup of known chunks failed.
  case lookup(String)
  case cancelled

  package var description: String {
    switch self {
    case .store(let error): error.description
    case .noAccount(let place): "there is no account at \"\(place)\""
    case .formatMissing(let place, let object):
      "the backend \"\(place)\" has objects of an account, such as \"\(object)\", but not the "
        + "object \"format\"; run `ubiquityfs store recover` on a device that is signed in"
    case .wrongSecret: "the secret does not belong to this account"
    case .secretChanged:
      "the account's secret was changed; sign in with the output of `ubiquityfs account secret` on "
        + "a device that is signed in"
    case .removed(let remover):
      "this device was removed from the account by the device \"\(remover.name)\" "
        + "(\(remover.device)). It uploads and downloads nothing any more, and keeps all local "
        + "files. To join again, sign out and sign in with the account's new secret, or with a "
        + "code of `ubiquityfs account pair`"
    case .moved(let store):
      "the account moves from this backend to \"\(store)\". This device uploads nothing until it "
        + "uses the new backend, and keeps all local files. If it cannot reach the new backend, "
        + "run `ubiquityfs account move-backend URL` with its URL on this device and its access "
        + "keys"
    case .targetTaken(let place):
      "\"\(place)\" has objects that do not belong to this account; choose an empty place"
    case .notMember:
      "this device is not a member of the account; run `ubiquityfs account sign-in` again"
    case .membersBehind(let object, let entry):
      "the object \"\(object)\" names entry \(entry) of the account's member log, but the backend "
        + "does not return that entry. The object is not trusted before it does. Restore the "
        + "backend from its newest copy"
    case .unsigned(let object, let reason):
      "the object \"\(object)\" in the backend is not valid: \(reason); a device that is signed in "
        + "can write it again, see `ubiquityfs account devices`"
    case .epochUnknown(let object):
      "the object \"\(object)\" in the backend is encrypted with a key that this device does not "
        + "have"
    case .badSecret(let reason): "the account secret is not valid: \(reason)"
    case .newerFormat(let object, let version):
      "the object \"\(object)\" has format \(version), which a newer release of ubiquityfs wrote; "
        + "update ubiquityfs on this device"
    case .damaged(let object, let reason):
      "the object \"\(object)\" in the backend is damaged: \(reason); restore it from a copy of "
        + "the backend"
    case .logRemoved(let object):
      "the log segments before \"\(object)\" are missing in the backend, and no snapshot replaces "
        + "them; restore them from a copy of the backend"
    case .packMissing(let object):
      "the object \"\(object)\" in the backend is damaged: it is missing; restore it from a copy "
        + "of the backend"
    case .rolledBack(let object):
      "the object \"\(object)\" in the backend differs from the one that this device read there: "
        + "the backend went back to an earlier state; restore its newest copy"
    case .deleted(let deletion): "the device \(deletion.device) deleted the container"
    case .changedWhileReading: "the file changed while it was read"
    case .file(let code): "cannot read the file: \(code)"
    case .tooLarge(let what): "\(what) is too large"
    case .malformed(let reason):
      "the changes of this device break a rule of the log, so nothing was uploaded: \(reason); "
        + "please report this defect"
    case .lookup(let text): text
    case .cancelled: "the operation was cancelled"
    }
  }

  /// Whether the same call may succeed later without anything being repaired.
  package var isTransient: Bool {
    switch self {
    case .store(.offline), .store(.unavailable), .store(.unreachable), .store(.busy),
      .store(.cancelled), .changedWhileReading, .cancelled:
      true
    default: false
    }
  }

  init(_ error: StoreError) { self = error == .cancelled ? .cancelled : .store(error) }
}

/// Runs a call of the store and gives its failure as the account's.
func storing<Answer>(
  _ call: () async throws(StoreError) -> Answer
) async throws(RemoteError) -> Answer {
  do throws(StoreError) {
    return try await call()
  } catch {
    throw RemoteError(error)
  }
}

extension ObjectStore {
  /// All keys under a prefix, in their order. `limit`: a store that lists more has no end, or is
  /// not one of ours.
  func allKeys(_ prefix: String, limit: Int) async throws(RemoteError) -> [String] {
    let page = 1000
    var result: [String] = []
    while true {
      let after = result.last
      let next = try await storing { () async throws(StoreError) in
        try await list(prefix: prefix, after: after, limit: page)
      }
      result += next
      guard result.count <= limit else {
        throw .damaged(object: prefix, reason: "it holds more than \(limit) objects")
      }
      guard next.count == page else { return result }
    }
  }
}
