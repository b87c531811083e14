// What the account may take, what takes it, and deleting of that.

package struct QuotaRequest: Codable, Sendable {
  /// Sets it; without, it is only told.
  package var isSet: Bool
  /// In bytes; nil: there is to be none.
  package var limit: UInt64?

  package init(isSet: Bool, limit: UInt64? = nil) {
    self.isSet = isSet
    self.limit = limit
  }
}

package struct QuotaReport: Codable, Sendable, Equatable {
  /// Nil: there is none.
  package var quota: UInt64?
  /// What all containers take, as far as this device knows.
  package var used: UInt64
  /// Nil without a quota.
  package var left: UInt64?
  /// When the backend gave these figures; nil: it never did.
  package var asOf: String?
  /// The backend was asked for this report.
  package var isCurrent: Bool

  package init(quota: UInt64?, used: UInt64, left: UInt64?, asOf: String?, isCurrent: Bool) {
    self.quota = quota
    self.used = used
    self.left = left
    self.asOf = asOf
    self.isCurrent = isCurrent
  }
}

package struct StorageReport: Codable, Sendable {
  package var quota: UInt64?
  package var used: UInt64
  package var left: UInt64?
  /// As in `QuotaReport`.
  package var asOf: String?
  package var isCurrent: Bool
  package var containers: [ListedStorage]

  package init(quota: QuotaReport, containers: [ListedStorage]) {
    self.quota = quota.quota
    used = quota.used
    left = quota.left
    asOf = quota.asOf
    isCurrent = quota.isCurrent
    self.containers = containers
  }

  /// The figures of the whole account.
  package var account: QuotaReport {
    QuotaReport(quota: quota, used: used, left: left, asOf: asOf, isCurrent: isCurrent)
  }
}

package struct ListedStorage: Codable, Sendable {
  package var id: String
  /// What counts. Nil where this device has not read the container's log and no other has told.
  package var totalBytes: UInt64?
  /// The number of them. This and what follows are nil where the container is not on this device.
  package var documents: Int?
  package var documentBytes: UInt64?
  package var otherBytes: UInt64?
  package var conflictBytes: UInt64?
  /// Can be brought back, and does not count.
  package var removedBytes: UInt64?
  /// On this device alone, for want of room.
  package var waitingBytes: UInt64?
  package var mountpoint: String?
  /// Why the container, which is on this device, could not be opened.
  package var error: String?

  package init(id: String, totalBytes: UInt64?, mountpoint: String?, error: String? = nil) {
    self.id = id
    self.totalBytes = totalBytes
    self.mountpoint = mountpoint
    self.error = error
  }
}

/// One document: a file or a package in `Documents`.
package struct ListedDocument: Codable, Sendable {
  /// From the container's own directory.
  package var path: PathBytes
  /// `file`, `package` or `symbolicLink`.
  package var kind: String
  package var size: UInt64
  package var modified: String
  /// False: some of it is on the device alone that saved it.
  package var isUploaded: Bool

  package init(path: PathBytes, kind: String, size: UInt64, modified: String, isUploaded: Bool) {
    self.path = path
    self.kind = kind
    self.size = size
    self.modified = modified
    self.isUploaded = isUploaded
  }
}

package struct ContainerStorage: Codable, Sendable {
  package var id: String
  package var totalBytes: UInt64
  /// The largest first.
  package var documents: [ListedDocument]
  package var documentBytes: UInt64
  /// All that is outside of `Documents`.
  package var otherBytes: UInt64
  package var otherItems: Int
  package var conflictBytes: UInt64
  package var conflictVersions: Int
  /// Can be brought back, and does not count.
  package var removedBytes: UInt64
  package var removedItems: Int
  package var waitingFiles: Int
  package var waitingBytes: UInt64

  package init(
    id: String, totalBytes: UInt64, documents: [ListedDocument], documentBytes: UInt64,
    otherBytes: UInt64, otherItems: Int, conflictBytes: UInt64, conflictVersions: Int,
    removedBytes: UInt64, removedItems: Int, waitingFiles: Int, waitingBytes: UInt64
  ) {
    self.id = id
    self.totalBytes = totalBytes
    self.documents = documents
    self.documentBytes = documentBytes
    self.otherBytes = otherBytes
    self.otherItems = otherItems
    self.conflictBytes = conflictBytes
    self.conflictVersions = conflictVersions
    self.removedBytes = removedBytes
    self.removedItems = removedItems
    self.waitingFiles = waitingFiles
    self.waitingBytes = waitingBytes
  }
}

package struct StorageDeletionRequest: Codable, Sendable {
  /// A document as a user names it.
  package struct Document: Codable, Sendable {
    /// As it was written: from the container's own directory.
    package var path: PathBytes
    /// Where that is in a mount, if it is in one.
    package var item: ItemReference?

    package init(path: PathBytes, item: ItemReference?) {
      self.path = path
      self.item = item
    }
  }

  package var container: String
  package var documents: [Document]
  /// All that is outside of `Documents`.
  package var otherData: Bool
  /// All documents.
  package var allDocuments: Bool
  /// Nothing is deleted: what would go is told.
  package var isTrial: Bool

  package init(
    container: String, documents: [Document], otherData: Bool, allDocuments: Bool, isTrial: Bool
  ) {
    self.container = container
    self.documents = documents
    self.otherData = otherData
    self.allDocuments = allDocuments
    self.isTrial = isTrial
  }
}

package struct StorageDeletionReport: Codable, Sendable {
  package var container: String
  package var documents: Int
  /// Files, links and directories, what is in packages with them.
  package var items: Int
  package var bytes: UInt64
  /// Of what is deleted, items that stay since they never leave the device (`.nosync`, FIFOs).
  package var kept: Int
  package var isDone: Bool
  /// Why it is deleted on this device alone until the user confirms it, and how to do that.
  package var held: String?

  package init(
    container: String, documents: Int, items: Int, bytes: UInt64, kept: Int, isDone: Bool,
    held: String? = nil
  ) {
    self.container = container
    self.documents = documents
    self.items = items
    self.bytes = bytes
    self.kept = kept
    self.isDone = isDone
    self.held = held
  }
}
