@preconcurrency internal import Crypto
internal import Model
internal import Platform
internal import RecordFormat

/// The keys and members of an account as this device knows them now. All containers of the account
/// share one, so a new epoch is in force for all of them at once.
///
/// Safe from any task. It asks no backend; `MemberLog.swift` does.
final class AccountState: Sendable {
  let names: NameKeys
  let account: [UInt8]
  /// Nil: this device only reads, or writes as the first format did, which an account with members
  /// takes from nobody.
  let identity: DeviceIdentity?
  let seen: SeenRecords
  private let memory: any AccountMemory
  /// The secret that the account was opened with.
  private let secret: AccountSecret
  /// Held while the memory is saved. A leaf but for that.
  private let state: Lock<Membership>
  /// Called when the member log says that the account leaves its store. A leaf.
  private let whenMoving = Lock<(@Sendable () -> Void)?>(nil)
  /// The entry of the last epoch of which this process has seen the end (`settleMembers`). A leaf.
  private let settledEntry = Lock<UInt64>(0)

  /// `masters` has the first epoch's.
  init(
    account: [UInt8], masters: [UInt32: SymmetricKey], secret: AccountSecret,
    identity: DeviceIdentity?, memory: any AccountMemory
  ) throws(RemoteError) {
    guard let first = masters[1] else {
      throw .damaged(object: ObjectName.format, reason: "it lacks the first epoch's key")
    }
    self.account = account
    self.identity = identity
    self.memory = memory
    self.secret = secret
    names = NameKeys(master: first, account: account)
    seen = SeenRecords(account: account, memory: memory)
    var membership = Membership(account: account, masters: masters, identity: identity)
    if let bytes = memory.load(.members), let list = ByteList.decode(bytes), list.first == account {
      // What is damaged here is read again from the backend.
      for stored in list.dropFirst() {
        do throws(RemoteError) { try membership.fold(stored) } catch { break }
      }
    }
    state = Lock(membership)
  }

  var membership: Membership { state.withLock { $0 } }

  /// What a further device signs in with.
  var newestSecret: AccountSecret {
    state.withLock { $0.lastRotation > 0 ? $0.secret ?? secret : secret }
  }

  var isMember: Bool {
    guard let identity else { return false }
    return state.withLock { $0.isMember(identity.device) }
  }

  var hasNewestKey: Bool { state.withLock { $0.epochs[$0.epoch] != nil } }

  func isSettled(_ entry: UInt64) -> Bool { settledEntry.withLock { $0 >= entry } }

  func settled(_ entry: UInt64) { settledEntry.withLock { $0 = max($0, entry) } }

  /// Throws `.removed` once this device knows that it was removed from the account.
  func requireNotRemoved() throws(RemoteError) {
    guard let identity else { return }
    let remover = state.withLock { state in
      state.remover(of: identity.device).flatMap { state.known($0) }
    }
    if let remover { throw .removed(by: remover) }
  }

  /// This device has read an entry that begins a move, and none that ends it.
  var isLeaving: Bool { state.withLock { $0.move != nil } }

  /// Throws `.moved` while the account leaves the store. A write there could come after the copy.
  func requireHere() throws(RemoteError) {
    if let move = state.withLock({ $0.move }) { throw .moved(to: move.store) }
  }

  /// Adds an entry of the member log, durably; one that is known already is passed over.
  func fold(_ stored: [UInt8], number: UInt64) throws(RemoteError) {
    try state.withLock { membership throws(RemoteError) in
      guard number == membership.number + 1 else { return }
      try membership.fold(stored)
      memory.save(.members, ByteList.encode([account] + membership.stored))
    }
    if membership.move != nil { whenMoving.withLock(\.self)?() }
  }

  func onMove(_ body: (@Sendable () -> Void)?) { whenMoving.withLock { $0 = body } }

  // MARK: - Keys

  func chunkID(_ bytes: UnsafeRawBufferPointer) -> ChunkID { names.chunkID(bytes) }

  func objectName(of container: ContainerID) -> [UInt8] { names.objectName(of: container) }

  var chunker: Chunker { names.chunker }

  var identifier: [UInt8] { names.identity }

  /// Of the epoch that new objects are sealed under, with its number.
  var newest: (epoch: UInt32, keys: EpochKeys) {
    state.withLock { membership in
      // Without the newest key this device was removed, and writes nothing any more.
      var epoch = membership.epoch
      while epoch > 1, membership.epochs[epoch] == nil { epoch -= 1 }
      guard let keys = membership.epochs[epoch] else {
        preconditionFailure("the first epoch's key is known")
      }
      return (epoch, keys)
    }
  }

  /// Throws `.epochUnknown` for an epoch whose key this device does not have.
  func keys(of epoch: UInt32, _ object: String) throws(RemoteError) -> EpochKeys {
    guard let keys = state.withLock({ $0.epochs[epoch] }) else {
      throw .epochUnknown(object: object)
    }
    return keys
  }

  /// All that this device has, the newest first.
  var allKeys: [EpochKeys] {
    state.withLock { $0.epochs.sorted { $0.key > $1.key }.map(\.value) }
  }
}
