// swift-format-ignore-file: AlwaysUseLowerCamelCase

public import Foundation

// The attributes of items, by the names and values that they have in Apple's Foundation.

/// The item's name. A `String`.
public let NSMetadataItemFSNameKey = "kMDItemFSName"
/// The name for people, which here is the item's name. A `String`.
public let NSMetadataItemDisplayNameKey = "kMDItemDisplayName"
/// Where the item is. A `URL`.
public let NSMetadataItemURLKey = "kMDItemURL"
/// Where the item is. A `String`.
public let NSMetadataItemPathKey = "kMDItemPath"
/// The length of a file. An `NSNumber`.
public let NSMetadataItemFSSizeKey = "kMDItemFSSize"
/// When the item was made. A `Date`.
public let NSMetadataItemFSCreationDateKey = "kMDItemFSCreationDate"
/// When its content was last changed. A `Date`.
public let NSMetadataItemFSContentChangeDateKey = "kMDItemFSContentChangeDate"
/// Whether other devices get the item: false of what is `.nosync`. An `NSNumber` of a truth value.
public let NSMetadataItemIsUbiquitousKey = "NSMetadataItemIsUbiquitousKey"
/// Whether there are versions of the item that somebody has to choose from. An `NSNumber` of a
/// truth value.
public let NSMetadataUbiquitousItemHasUnresolvedConflictsKey =
  "NSMetadataUbiquitousItemHasUnresolvedConflictsKey"
/// Whether the content is here, and the newest: one of the three values below. A `String`.
public let NSMetadataUbiquitousItemDownloadingStatusKey =
  "NSMetadataUbiquitousItemDownloadingStatusKey"
/// The content is not on this device.
public let NSMetadataUbiquitousItemDownloadingStatusNotDownloaded =
  "NSMetadataUbiquitousItemDownloadingStatusNotDownloaded"
/// The content is on this device, and there is a newer one.
public let NSMetadataUbiquitousItemDownloadingStatusDownloaded =
  "NSMetadataUbiquitousItemDownloadingStatusDownloaded"
/// The content is on this device, and the newest.
public let NSMetadataUbiquitousItemDownloadingStatusCurrent =
  "NSMetadataUbiquitousItemDownloadingStatusCurrent"
/// Whether a download was asked for, or is done. An `NSNumber` of a truth value.
public let NSMetadataUbiquitousItemDownloadRequestedKey =
  "NSMetadataUbiquitousItemDownloadRequestedKey"
/// Whether the content is here. Apple deprecates it in favour of the status. An `NSNumber` of a
/// truth value.
public let NSMetadataUbiquitousItemIsDownloadedKey = "NSMetadataUbiquitousItemIsDownloadedKey"
/// Whether the content is on its way here. An `NSNumber` of a truth value.
public let NSMetadataUbiquitousItemIsDownloadingKey = "NSMetadataUbiquitousItemIsDownloadingKey"
/// Whether the backend has the item as it is here. An `NSNumber` of a truth value.
public let NSMetadataUbiquitousItemIsUploadedKey = "NSMetadataUbiquitousItemIsUploadedKey"
/// Whether the content is on its way to the backend. An `NSNumber` of a truth value.
public let NSMetadataUbiquitousItemIsUploadingKey = "NSMetadataUbiquitousItemIsUploadingKey"
/// How much of the content is here, 0 to 100. An `NSNumber`.
public let NSMetadataUbiquitousItemPercentDownloadedKey =
  "NSMetadataUbiquitousItemPercentDownloadedKey"
/// How much of the content the backend has, 0 to 100. An `NSNumber`.
public let NSMetadataUbiquitousItemPercentUploadedKey =
  "NSMetadataUbiquitousItemPercentUploadedKey"
/// Why the content does not come; no value while nothing is wrong. An `NSError`.
public let NSMetadataUbiquitousItemDownloadingErrorKey =
  "NSMetadataUbiquitousItemDownloadingErrorKey"
/// Why the content does not go; no value while nothing is wrong. An `NSError`.
public let NSMetadataUbiquitousItemUploadingErrorKey = "NSMetadataUbiquitousItemUploadingErrorKey"
/// What people call the container: its name. A `String`.
public let NSMetadataUbiquitousItemContainerDisplayNameKey =
  "NSMetadataUbiquitousItemContainerDisplayNameKey"

/// Looks at what is below `Documents` of every mounted container.
public let NSMetadataQueryUbiquitousDocumentsScope = "NSMetadataQueryUbiquitousDocumentsScope"
/// Looks at what is in mounted containers outside of `Documents`.
public let NSMetadataQueryUbiquitousDataScope = "NSMetadataQueryUbiquitousDataScope"

/// In the user info of an update: the items that fit now and did not before, `[NSMetadataItem]`.
public let NSMetadataQueryUpdateAddedItemsKey = "kMDQueryUpdateAddedItems"
/// In the user info of an update: the items that have changed, `[NSMetadataItem]`.
public let NSMetadataQueryUpdateChangedItemsKey = "kMDQueryUpdateChangedItems"
/// In the user info of an update: the items that are gone or fit no more, `[NSMetadataItem]`.
public let NSMetadataQueryUpdateRemovedItemsKey = "kMDQueryUpdateRemovedItems"

extension Notification.Name {
  /// The query, which is the object, was started.
  public static let NSMetadataQueryDidStartGathering = Notification.Name(
    "NSMetadataQueryDidStartGatheringNotification")
  /// More of what is there was found.
  public static let NSMetadataQueryGatheringProgress = Notification.Name(
    "NSMetadataQueryGatheringProgressNotification")
  /// All that is there was found; updates follow.
  public static let NSMetadataQueryDidFinishGathering = Notification.Name(
    "NSMetadataQueryDidFinishGatheringNotification")
  /// The results have changed: the user info says how.
  public static let NSMetadataQueryDidUpdate = Notification.Name(
    "NSMetadataQueryDidUpdateNotification")
}
