/// Devices that join and leave, and new keys.
package struct RemoveDevicesRequest: Codable, Sendable {
  /// By name or identity.
  package var devices: [String]
  /// The account's new secret; nil for a generated one.
  package var secret: String?

  package init(devices: [String], secret: String?) {
    self.devices = devices
    self.secret = secret
  }
}

package struct RotateRequest: Codable, Sendable {
  /// The account's new secret; nil for a generated one.
  package var secret: String?

  package init(secret: String?) { self.secret = secret }
}

package struct RemovedDevice: Codable, Sendable {
  package var id: String
  package var name: String

  package init(id: String, name: String) {
    self.id = id
    self.name = name
  }
}

package struct RotationAnswer: Codable, Sendable {
  /// What further devices sign in with from here on.
  package var secret: String
  /// Another device had removed these devices already, with that secret.
  package var wasDone: Bool
  package var removed: [RemovedDevice]

  package init(secret: String, wasDone: Bool, removed: [RemovedDevice]) {
    self.secret = secret
    self.wasDone = wasDone
    self.removed = removed
  }
}

package struct MoveBackendRequest: Codable, Sendable {
  package var backend: String
  /// As in `SignInRequest`.
  package var environment: [String: String]
  /// Gives up a move to another backend that cannot be reached.
  package var force: Bool

  package init(backend: String, environment: [String: String], force: Bool) {
    self.backend = backend
    self.environment = environment
    self.force = force
  }
}

package struct MoveBackendAnswer: Codable, Sendable {
  package var backend: String
  /// The store that the account left, which still has everything. Nil: a move was given up.
  package var former: String?
  /// Objects and bytes that this call copied.
  package var objects: UInt64
  package var bytes: UInt64
  package var warning: String?

  package init(backend: String, objects: UInt64, bytes: UInt64) {
    self.backend = backend
    self.objects = objects
    self.bytes = bytes
  }
}

package struct PairingCodeAnswer: Codable, Sendable {
  package var code: String
  package var backend: String
  /// For how long it counts.
  package var seconds: Int

  package init(code: String, backend: String, seconds: Int) {
    self.code = code
    self.backend = backend
    self.seconds = seconds
  }
}

/// What both devices show.
package struct PairingAsks: Codable, Sendable {
  /// The other device.
  package var name: String
  package var words: [String]

  package init(name: String, words: [String]) {
    self.name = name
    self.words = words
  }
}

package struct PairingAnswerRequest: Codable, Sendable {
  package var isYes: Bool

  package init(isYes: Bool) { self.isYes = isYes }
}

package struct PairingDone: Codable, Sendable {
  /// The device that the account was handed to; nil: the user refused.
  package var name: String?
  /// Whether it has signed in by now.
  package var hasJoined: Bool

  package init(name: String?, hasJoined: Bool) {
    self.name = name
    self.hasJoined = hasJoined
  }
}

package struct PairingRequestParameters: Codable, Sendable {
  package var code: String
  /// Without a secret.
  package var signIn: SignInRequest

  package init(code: String, signIn: SignInRequest) {
    self.code = code
    self.signIn = signIn
  }
}

extension Methods {
  /// Answers when the devices are removed and the others have new keys.
  package enum RemoveDevices: ControlMethod {
    package typealias Parameters = RemoveDevicesRequest
    package typealias Answer = RotationAnswer
    package static let name = "account.removeDevices"
  }

  package enum RotateKeys: ControlMethod {
    package typealias Parameters = RotateRequest
    package typealias Answer = RotationAnswer
    package static let name = "account.rotate"
  }

  /// Answers when the backend has the whole account and this device is about to use it. Sends
  /// `progress` notifications.
  package enum MoveBackend: ControlMethod {
    package typealias Parameters = MoveBackendRequest
    package typealias Answer = MoveBackendAnswer
    package static let name = "account.moveBackend"
  }

  /// The code counts as long as the connection lasts, ten minutes at most.
  package enum BeginPairing: ControlMethod {
    package typealias Parameters = Nothing
    package typealias Answer = PairingCodeAnswer
    package static let name = "pairing.begin"
  }

  /// Answers when a device has the code.
  package enum WaitForPairing: ControlMethod {
    package typealias Parameters = Nothing
    package typealias Answer = PairingAsks
    package static let name = "pairing.wait"
  }

  /// Hands the account over, or refuses. Answers when the device has joined, or a minute later.
  package enum AnswerPairing: ControlMethod {
    package typealias Parameters = PairingAnswerRequest
    package typealias Answer = PairingDone
    package static let name = "pairing.answer"
  }

  /// Of a device that is not signed in. Answers when the other device has found the code right.
  package enum RequestPairing: ControlMethod {
    package typealias Parameters = PairingRequestParameters
    package typealias Answer = PairingAsks
    package static let name = "pairing.request"
  }

  /// Signs in once the other device's user has agreed.
  package enum FinishPairing: ControlMethod {
    package typealias Parameters = Nothing
    package typealias Answer = SignInAnswer
    package static let name = "pairing.finish"
  }
}
