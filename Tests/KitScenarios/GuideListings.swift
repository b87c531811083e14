import Dispatch
import Foundation
import UbiquityKit

/// The iCloud Design Guide's Listings 1-1 to 1-5 as a program would have them in Swift. What such a
/// program shows its user is printed.
enum GuideListings {
  static let scenarios: [String: ScenarioCommand.Scenario] = [
    "listing-1-1": { _ in print(try describe(obtainToken())) },
    "listing-1-2": { _ in print(try archiveToken()) },
    "listing-1-3": { arguments in try await observeAvailability(Int(arguments[0]) ?? 1) },
    "listing-1-4": { arguments in inviteUser(answer: arguments[0]) },
    "listing-1-5": { arguments in try await obtainContainer(arguments.first) },
  ]

  /// Listing 1-1, "Obtaining the iCloud token".
  static func obtainToken() -> UbiquityIdentityToken? {
    FileManager.default.ubiquityIdentityToken
  }

  /// As text that can be compared between processes and devices.
  static func describe(_ token: UbiquityIdentityToken?) throws -> String {
    guard let token else { return "signed out" }
    return String(decoding: try JSONEncoder().encode(token), as: UTF8.self)
  }

  private static let tokenKey = "org.example.notes.UbiquityIdentityToken"
  private static let choiceKey = "org.example.notes.UsesICloud"

  /// Listing 1-2, "Archiving iCloud availability in the user defaults database"; says what has
  /// become of the account since the last launch.
  static func archiveToken() throws -> String {
    let defaults = UserDefaults.standard
    let former = try defaults.data(forKey: tokenKey).flatMap {
      try NSKeyedUnarchiver.unarchivedObject(ofClass: UbiquityIdentityToken.self, from: $0)
    }
    let current = obtainToken()
    if let current {
      let archived = try NSKeyedArchiver.archivedData(
        withRootObject: current, requiringSecureCoding: true)
      defaults.set(archived, forKey: tokenKey)
    } else {
      defaults.removeObject(forKey: tokenKey)
    }
    defaults.synchronize()
    switch (former, current) {
    case (nil, nil): return "no account"
    case (nil, _): return "first account"
    case (_, nil): return "signed out"
    case (let former?, let current?):
      try expect(
        !former.isEqual(current) || former.hash == current.hash, "equal tokens, two hashes")
      return former == current ? "same account" : "other account"
    }
  }

  /// Listing 1-3, "Registering for iCloud availability change notifications", and what the guide's
  /// "Handle Changes in iCloud Availability" has the method do: ask for the token anew, and
  /// compare. Ends after `count` changes.
  static func observeAvailability(_ count: Int) async throws {
    let changes = AsyncStream<Void> { continuation in
      let observer = NotificationCenter.default.addObserver(
        forName: .NSUbiquityIdentityDidChange, object: nil, queue: nil
      ) { notification in
        if notification.object == nil { continuation.yield() }
      }
      nonisolated(unsafe) let held = observer
      continuation.onTermination = { _ in NotificationCenter.default.removeObserver(held) }
    }
    var known = obtainToken()
    ScenarioCommand.say("observing")
    var seen = 0
    for await _ in changes {
      let now = obtainToken()
      ScenarioCommand.say(
        now == nil ? "account gone" : known == now ? "nothing new" : "account there")
      known = now
      seen += 1
      if seen == count { return }
    }
  }

  /// Listing 1-4, "Inviting the user to use iCloud": asked once, when an account is there for the
  /// first time.
  static func inviteUser(answer: String) {
    let defaults = UserDefaults.standard
    let isFirstLaunchWithICloud = defaults.object(forKey: choiceKey) == nil
    guard obtainToken() != nil, isFirstLaunchWithICloud else {
      return print("not asked")
    }
    print("Choose Storage Option: Local Only / Use iCloud")
    defaults.set(answer == "Use iCloud", forKey: choiceKey)
    defaults.synchronize()
  }

  /// Listing 1-5, "Obtaining the URL to your ubiquity container": on another queue than the main
  /// one, to which it comes back. Then writes a document, since the container is there to be
  /// written to.
  static func obtainContainer(_ identifier: String?) async throws {
    let container: URL? = await withCheckedContinuation { continuation in
      DispatchQueue.global(qos: .default).async {
        let container = FileManager.default.url(forUbiquityContainerIdentifier: identifier)
        DispatchQueue.main.async { continuation.resume(returning: container) }
      }
    }
    guard let container else {
      do {
        _ = try await FileManager.default.ubiquityContainerURL(forIdentifier: identifier)
        throw Unexpected(description: "nil, and then there it is")
      } catch let error as CocoaError {
        return print("none: \(error.code.rawValue)")
      }
    }
    print(container.path)
    let documents = container.appendingPathComponent("Documents", isDirectory: true)
    try Data("written by listing 1-5\n".utf8).write(
      to: documents.appendingPathComponent("listing-1-5.txt"), options: .atomic)
  }
}
