internal import ControlProtocol
internal import Model
internal import Platform
internal import RemoteStore

/// What connections pair: an offer, or the request of a device that is not signed in. Each ends
/// with its connection, and then nothing of it is left in the backend.
final class PairingTable: Sendable {
  struct Request: Sendable {
    let request: PairingRequest
    let signIn: SignInRequest
    let device: StoredDevice
    let stack: BackendStack
  }

  private struct State {
    var offers: [ObjectIdentifier: PairingOffer] = [:]
    var requests: [ObjectIdentifier: Request] = [:]
  }

  /// A leaf.
  private let state = Lock(State())

  func offer(of connection: ClientConnection) -> PairingOffer? {
    state.withLock { $0.offers[ObjectIdentifier(connection)] }
  }

  func request(of connection: ClientConnection) -> Request? {
    state.withLock { $0.requests[ObjectIdentifier(connection)] }
  }

  func add(_ offer: PairingOffer, _ connection: ClientConnection) {
    let key = ObjectIdentifier(connection)
    let old = state.withLock { state in
      defer { state.offers[key] = offer }
      return state.offers[key]
    }
    if let old { Task { try? await old.clean() } }
    connection.onEnd { [weak self] in
      let offer = self?.state.withLock { $0.offers.removeValue(forKey: key) }
      if let offer { Task { try? await offer.clean() } }
    }
  }

  func add(_ request: Request, _ connection: ClientConnection) {
    let key = ObjectIdentifier(connection)
    state.withLock { $0.requests[key] = request }
    connection.onEnd { [weak self] in
      let request = self?.state.withLock { $0.requests.removeValue(forKey: key) }
      if let request { Task { try? await request.request.clean() } }
    }
  }
}

extension DaemonService {
  /// How often the backend is looked at while two devices pair.
  private static let pairingPace = Duration.milliseconds(500)
  /// How long a device that was let in may take to join.
  private static let joiningLimit = Duration.seconds(60)

  // MARK: The device that is signed in

  func beginPairing(_ connection: ClientConnection) throws(ControlError) -> PairingCodeAnswer {
    let session = try requireAccount()
    guard !offline.isOffline else {
      throw ControlError(.offline, "offline mode is on; turn it off with `ubiquityfs offline off`")
    }
    let offer = PairingOffer(account: session.account)
    pairings.add(offer, connection)
    try connection.wait { try await offer.begin() }
    return PairingCodeAnswer(
      code: offer.code.description, backend: session.stored.backend,
      seconds: Int(PairingOffer.lifetime / 1_000_000_000))
  }

  func waitForPairing(_ connection: ClientConnection) throws(ControlError) -> PairingAsks {
    guard let offer = pairings.offer(of: connection) else {
      throw ControlError(.usage, "this connection has not begun a pairing")
    }
    return try connection.wait { () async throws in
      while true {
        switch try await offer.look() {
        case .asks(let name, let words): return PairingAsks(name: name, words: words)
        case .failed(let error): throw error
        case .waiting, .granted: try await Task.sleep(for: Self.pairingPace)
        }
      }
    }
  }

  func answerPairing(_ request: PairingAnswerRequest, _ connection: ClientConnection)
    throws(ControlError) -> PairingDone
  {
    guard let offer = pairings.offer(of: connection) else {
      throw ControlError(.usage, "this connection has not begun a pairing")
    }
    let logger = logger
    return try connection.wait { () async throws in
      switch try await offer.answer(request.isYes) {
      case .granted(let name):
        logger.notice("handed the account over to \"\(name)\"")
        let deadline = ContinuousClock.now + Self.joiningLimit
        var hasJoined = false
        while !hasJoined, ContinuousClock.now < deadline {
          try await Task.sleep(for: Self.pairingPace)
          hasJoined = try await offer.hasJoined()
        }
        try await offer.clean()
        return PairingDone(name: name, hasJoined: hasJoined)
      case .failed(.refused) where !request.isYes:
        return PairingDone(name: nil, hasJoined: false)
      case .failed(let error): throw error
      case .waiting, .asks: throw ControlError(.usage, "no device has asked to pair")
      }
    }
  }

  // MARK: The new device

  func requestPairing(_ request: PairingRequestParameters, _ connection: ClientConnection)
    throws(ControlError) -> PairingAsks
  {
    let code: PairingCode
    do throws(PairingError) { code = try PairingCode(request.code) } catch {
      throw ControlError(.usage, "\(error)")
    }
    guard try store.account() == nil else {
      throw ControlError(
        .busy, "this device is already signed in; run `ubiquityfs account sign-out` first")
    }
    let signIn = makeSignIn()
    let address = try signIn.address(request.signIn)
    let device = try signIn.candidate(request.signIn)
    guard let identity = device.identity else {
      throw ControlError(.failed, "\"\(state.device)\" is damaged; move it away and try again")
    }
    let given = address.variables.selected(from: request.signIn.environment ?? [:])
    let stack = signIn.stack(address, given)
    let pairing = PairingRequest(store: stack.store, code: code, identity: identity)
    pairings.add(
      PairingTable.Request(
        request: pairing, signIn: request.signIn, device: device, stack: stack), connection)
    return try connection.wait { () async throws in
      try await pairing.begin()
      while true {
        switch try await pairing.look() {
        case .seen(let name, let words): return PairingAsks(name: name, words: words)
        case .failed(let error): throw error
        case .waiting, .granted: try await Task.sleep(for: Self.pairingPace)
        }
      }
    }
  }

  func finishPairing(_ connection: ClientConnection) throws(ControlError) -> SignInAnswer {
    guard let pending = pairings.request(of: connection) else {
      throw ControlError(.usage, "this connection has not requested a pairing")
    }
    let grant = try connection.wait { () async throws in
      while true {
        switch try await pending.request.look() {
        case .granted(let grant): return grant
        case .failed(let error): throw error
        case .waiting, .seen: try await Task.sleep(for: Self.pairingPace)
        }
      }
    }
    return try signIn(pending.signIn, connection, device: pending.device, grant: grant)
  }
}
