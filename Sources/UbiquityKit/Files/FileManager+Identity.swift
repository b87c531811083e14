internal import ControlProtocol
public import Foundation
internal import Platform

extension FileManager {
  /// The account that is signed in in this program's state directory; nil when none is.
  ///
  /// Cheap: one small file is read, and nothing is waited for. It is there in airplane mode too.
  /// For any thread, the main one as well. It does not make containers ready for use:
  /// ``Foundation/FileManager/url(forUbiquityContainerIdentifier:)`` does.
  ///
  /// Source: iCloud Design Guide, "Prepare Your App to Use iCloud" and Listing 1-1.
  public var ubiquityIdentityToken: UbiquityIdentityToken? {
    IdentityMonitor.identity(state: Service.shared.stateDirectory)
      .map { UbiquityIdentityToken(identity: $0) }
  }
}

extension Notification.Name {
  /// Posted to `NotificationCenter.default` when the account that is signed in becomes another one
  /// or none, whoever did it; without an object. Ask `FileManager.ubiquityIdentityToken` which it
  /// is now.
  ///
  /// What has happened while no daemon ran is told when there is one again. It is posted on a
  /// thread of this library; observers that name a queue are called there. Watching begins with the
  /// first use of this name in the process.
  ///
  /// Source: iCloud Design Guide, "Handle Changes in iCloud Availability" and Listing 1-3.
  // swift-format-ignore: AlwaysUseLowerCamelCase
  public static var NSUbiquityIdentityDidChange: Notification.Name {
    IdentityMonitor.shared.begin()
    return Notification.Name("NSUbiquityIdentityDidChangeNotification")
  }
}
