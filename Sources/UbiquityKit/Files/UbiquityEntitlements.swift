internal import Foundation
internal import Platform

/// What an entitlements file says elsewhere: Linux has none, so the program says it itself.
///
/// Source: iCloud Design Guide, "Request Access to iCloud Storage By Using Entitlements".
public enum UbiquityEntitlements {
  private static let set = Lock<[String]?>(nil)

  /// The program's containers, its main one first: that is the one which
  /// `url(forUbiquityContainerIdentifier: nil)` means. It keeps no program from others.
  ///
  /// Until the program sets it, it is what the environment variable `UBIQUITYFS_CONTAINERS` has,
  /// separated by commas or spaces. For any thread.
  public static var ubiquityContainerIdentifiers: [String] {
    get { set.withLock { $0 } ?? ofEnvironment }
    set { set.withLock { $0 = newValue } }
  }

  private static var ofEnvironment: [String] {
    (ProcessInfo.processInfo.environment["UBIQUITYFS_CONTAINERS"] ?? "")
      .split { $0 == "," || $0.isWhitespace }.map(String.init)
  }
}
