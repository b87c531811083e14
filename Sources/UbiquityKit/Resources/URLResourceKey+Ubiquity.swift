public import Foundation

/// What Foundation on Linux does not declare; the others (`isUbiquitousItemKey`,
/// `ubiquitousItemDownloadingStatusKey`, ...) are its own.
extension URLResourceKey {
  /// Whether the item's content is here: a `Bool`. The old form of
  /// `ubiquitousItemDownloadingStatusKey`, which also tells what is not the newest.
  public static let ubiquitousItemIsDownloadedKey = URLResourceKey(
    rawValue: "NSURLUbiquitousItemIsDownloadedKey")

  /// How much of the content is here: a `Double` from 0 to 100.
  public static let ubiquitousItemPercentDownloadedKey = URLResourceKey(
    rawValue: "NSURLUbiquitousItemPercentDownloadedKey")

  /// How much of the content is in the backend: a `Double` from 0 to 100.
  public static let ubiquitousItemPercentUploadedKey = URLResourceKey(
    rawValue: "NSURLUbiquitousItemPercentUploadedKey")

  /// Whether the item stays on this device because of its name, or that of a directory it is in
  /// (`.nosync`): a `Bool`.
  public static let ubiquitousItemIsExcludedFromSyncKey = URLResourceKey(
    rawValue: "NSURLUbiquitousItemIsExcludedFromSyncKey")
}

/// Where the content of an item is: the value of `ubiquitousItemDownloadingStatusKey`.
public struct URLUbiquitousItemDownloadingStatus: Hashable, RawRepresentable, Sendable {
  public let rawValue: String

  public init(rawValue: String) { self.rawValue = rawValue }

  /// Not all of it is on this device: reading it fetches it.
  public static let notDownloaded = Self(
    rawValue: "NSURLUbiquitousItemDownloadingStatusNotDownloaded")

  /// On this device, and another device has saved a newer one.
  public static let downloaded = Self(rawValue: "NSURLUbiquitousItemDownloadingStatusDownloaded")

  /// On this device, and the newest that this device knows of.
  public static let current = Self(rawValue: "NSURLUbiquitousItemDownloadingStatusCurrent")
}
