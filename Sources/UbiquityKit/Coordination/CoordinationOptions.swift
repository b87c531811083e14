internal import Foundation

extension NSFileCoordinator {
  /// How an item is to be read. Source: Apple's documentation of
  /// `NSFileCoordinator.ReadingOptions`.
  public struct ReadingOptions: OptionSet, Hashable, Sendable {
    public let rawValue: UInt
    public init(rawValue: UInt) { self.rawValue = rawValue }

    /// Presenters are not asked to save their changes first: what is read is what is stored.
    public static let withoutChanges = ReadingOptions(rawValue: 1 << 0)
    /// Of a symbolic link the item that it leads to is read, and the accessor gets that item's URL.
    public static let resolvesSymbolicLink = ReadingOptions(rawValue: 1 << 1)
    /// Names and attributes alone are read: nothing is downloaded, and no presenter is asked.
    public static let immediatelyAvailableMetadataOnly = ReadingOptions(rawValue: 1 << 2)
    /// The accessor gets a copy that stays as it is, to be sent somewhere at leisure; the claim on
    /// the item itself is over by then. Of a directory it is one archive.
    public static let forUploading = ReadingOptions(rawValue: 1 << 3)

    var names: [String] {
      let all: [(ReadingOptions, String)] = [
        (.withoutChanges, "withoutChanges"), (.resolvesSymbolicLink, "resolvesSymbolicLink"),
        (.immediatelyAvailableMetadataOnly, "immediatelyAvailableMetadataOnly"),
        (.forUploading, "forUploading"),
      ]
      return all.filter { contains($0.0) }.map(\.1)
    }
  }

  /// What is about to be done to an item. At most one of the first four is meant to be used at a
  /// time. Source: Apple's documentation of `NSFileCoordinator.WritingOptions`.
  public struct WritingOptions: OptionSet, Hashable, Sendable {
    public let rawValue: UInt
    public init(rawValue: UInt) { self.rawValue = rawValue }

    /// The item will be removed: presenters of it, and of what is in it, make room for that
    /// (`accommodatePresentedItemDeletion`), presenters of directories above it are asked
    /// `accommodatePresentedSubitemDeletion`.
    public static let forDeleting = WritingOptions(rawValue: 1 << 0)
    /// The item will be moved or renamed; no presenter of what is in it need save.
    public static let forMoving = WritingOptions(rawValue: 1 << 1)
    /// Presenters save their changes first, so that what is written can take account of them.
    public static let forMerging = WritingOptions(rawValue: 1 << 2)
    /// Another item takes this one's place: presenters are asked as for a deletion.
    public static let forReplacing = WritingOptions(rawValue: 1 << 3)
    /// Attributes alone will be changed, such that do not depend on the content: no presenter is
    /// asked.
    public static let contentIndependentMetadataOnly = WritingOptions(rawValue: 1 << 4)

    var names: [String] {
      let all: [(WritingOptions, String)] = [
        (.forDeleting, "forDeleting"), (.forMoving, "forMoving"), (.forMerging, "forMerging"),
        (.forReplacing, "forReplacing"),
        (.contentIndependentMetadataOnly, "contentIndependentMetadataOnly"),
      ]
      return all.filter { contains($0.0) }.map(\.1)
    }
  }
}
