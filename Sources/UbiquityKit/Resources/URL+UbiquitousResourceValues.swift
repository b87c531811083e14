public import Foundation

extension URL {
  /// What the item's container says of it. As `resourceValues(forKeys:)`, which on Linux has no
  /// values for these keys; other keys are Foundation's and are left out here.
  ///
  /// Of an item that is in no container only `isUbiquitousItem` has a value. Nothing is kept: what
  /// is asked for is as it is now. No network is used and no daemon is asked, but of symbolic
  /// links; for any thread. Throws `CocoaError`, as `fileReadNoSuchFile` when nothing is there.
  public func ubiquitousResourceValues(
    forKeys keys: Set<URLResourceKey>
  ) throws -> URLUbiquitousResourceValues {
    URLUbiquitousResourceValues(try ItemState.of(self), keys, self)
  }

  /// Keeps an item on this device, or lets it be sent again, by its name: `NAME.nosync` stays here,
  /// and what is in it. Gives the item's new URL, since it is renamed; the same if it has such a
  /// name already.
  ///
  /// Renaming something that other devices have to such a name removes it from them. What is in a
  /// directory that is excluded is so whatever its own name. Throws `CocoaError`, as
  /// `fileWriteFileExists` when the new name is taken. To be called within a coordinated write with
  /// the option `forMoving`.
  @discardableResult
  public func setUbiquitousItemIsExcludedFromSync(_ isExcluded: Bool) throws -> URL {
    try ExclusionByName.set(isExcluded, of: self)
  }
}

/// What a container says of an item; nil where it was not asked for, or has none.
public struct URLUbiquitousResourceValues {
  /// By key, as they were asked for: a `Bool`, a `Double`, a `String`, an `NSError` or a
  /// ``URLUbiquitousItemDownloadingStatus``.
  public let allValues: [URLResourceKey: Any]

  /// Whether it is in a ubiquity container.
  public var isUbiquitousItem: Bool? { value(.isUbiquitousItemKey) }

  /// Where its content is.
  public var ubiquitousItemDownloadingStatus: URLUbiquitousItemDownloadingStatus? {
    value(.ubiquitousItemDownloadingStatusKey)
  }

  /// Whether its content is coming now.
  public var ubiquitousItemIsDownloading: Bool? { value(.ubiquitousItemIsDownloadingKey) }

  /// Whether a download was asked for and is not done. Here whatever was asked for is under way at
  /// once.
  public var ubiquitousItemDownloadRequested: Bool? { value(.ubiquitousItemDownloadRequestedKey) }

  /// Why the last attempt to download it failed.
  public var ubiquitousItemDownloadingError: NSError? { value(.ubiquitousItemDownloadingErrorKey) }

  /// Whether all of it is in the backend, as it is here.
  public var ubiquitousItemIsUploaded: Bool? { value(.ubiquitousItemIsUploadedKey) }

  /// Whether it is being sent now.
  public var ubiquitousItemIsUploading: Bool? { value(.ubiquitousItemIsUploadingKey) }

  /// Why the last attempt to send it failed.
  public var ubiquitousItemUploadingError: NSError? { value(.ubiquitousItemUploadingErrorKey) }

  /// Whether there are versions that lost a conflict which nobody has resolved: see
  /// ``NSFileVersion``.
  public var ubiquitousItemHasUnresolvedConflicts: Bool? {
    value(.ubiquitousItemHasUnresolvedConflictsKey)
  }

  /// Whether its content is here, the newest or not. Deprecated elsewhere:
  /// ``ubiquitousItemDownloadingStatus`` tells more.
  public var ubiquitousItemIsDownloaded: Bool? { value(.ubiquitousItemIsDownloadedKey) }

  /// How much of its content is here, from 0 to 100.
  public var ubiquitousItemPercentDownloaded: Double? { value(.ubiquitousItemPercentDownloadedKey) }

  /// How much of its content is in the backend, from 0 to 100.
  public var ubiquitousItemPercentUploaded: Double? { value(.ubiquitousItemPercentUploadedKey) }

  /// The last part of its container's identifier: Linux has no names of containers for people.
  public var ubiquitousItemContainerDisplayName: String? {
    value(.ubiquitousItemContainerDisplayNameKey)
  }

  /// Whether it stays on this device: `URL.setUbiquitousItemIsExcludedFromSync(_:)` changes it.
  public var ubiquitousItemIsExcludedFromSync: Bool? {
    value(.ubiquitousItemIsExcludedFromSyncKey)
  }

  private func value<Value>(_ key: URLResourceKey) -> Value? { allValues[key] as? Value }

  init(_ state: ItemState?, _ keys: Set<URLResourceKey>, _ url: URL) {
    var all: [URLResourceKey: Any] = [.isUbiquitousItemKey: state != nil]
    if let state {
      let status: URLUbiquitousItemDownloadingStatus =
        switch state.downloadingStatus {
        case "current": .current
        case "downloaded": .downloaded
        default: .notDownloaded
        }
      all[.ubiquitousItemDownloadingStatusKey] = status
      all[.ubiquitousItemIsDownloadedKey] = status != .notDownloaded
      all[.ubiquitousItemIsDownloadingKey] = state.isDownloading
      all[.ubiquitousItemDownloadRequestedKey] = state.isDownloading
      all[.ubiquitousItemIsUploadedKey] = state.isUploaded
      all[.ubiquitousItemIsUploadingKey] = state.isUploading
      all[.ubiquitousItemHasUnresolvedConflictsKey] = state.hasUnresolvedConflicts
      all[.ubiquitousItemPercentDownloadedKey] = Double(state.percentDownloaded)
      all[.ubiquitousItemPercentUploadedKey] = Double(state.percentUploaded)
      all[.ubiquitousItemIsExcludedFromSyncKey] = state.isExcludedFromSync
      all[.ubiquitousItemContainerDisplayNameKey] =
        state.container.split(separator: ".").last.map(String.init) ?? state.container
      all[.ubiquitousItemDownloadingErrorKey] = UbiquityErrors.transfer(
        state.downloadingError, isUpload: false, at: url)
      all[.ubiquitousItemUploadingErrorKey] = UbiquityErrors.transfer(
        state.uploadingError, isUpload: true, at: url)
    }
    allValues = all.filter { keys.contains($0.key) }
  }
}
