// The containers that a device keeps though its account no longer has them.

package struct SetAsideReport: Codable, Sendable {
  package var entries: [SetAsideEntry]

  package init(entries: [SetAsideEntry]) { self.entries = entries }
}

package struct SetAsideEntry: Codable, Sendable {
  /// Names the entry for other commands: the container's name, with a number where there are
  /// several.
  package var id: String
  package var container: String
  /// When it was set aside, and why; nil where an older release did it.
  package var time: String?
  package var reason: String?
  /// Files whose content is there, and their size.
  package var files: UInt64
  package var bytes: UInt64
  /// Files of which only the names are there.
  package var placeholders: UInt64
  /// Changes that were not uploaded.
  package var pendingUploads: Int
  package var directory: String
  /// Why it cannot be opened; what is counted above is 0 then.
  package var error: String?

  package init(id: String, container: String, directory: String) {
    self.id = id
    self.container = container
    self.directory = directory
    (files, bytes, placeholders, pendingUploads) = (0, 0, 0, 0)
  }
}

package struct SetAsideRequest: Codable, Sendable {
  package var id: String
  /// Where the files are to be put: an absolute path. Only for restoring.
  package var directory: PathBytes?
  /// The directory may have files of an earlier call; only missing files are copied then.
  package var continues: Bool?

  package init(id: String, directory: PathBytes? = nil, continues: Bool? = nil) {
    self.id = id
    self.directory = directory
    self.continues = continues
  }
}

package struct RestoredSetAside: Codable, Sendable {
  package var directory: PathBytes
  package var files: UInt64 = 0
  package var bytes: UInt64 = 0
  /// Files and links that were there already, of an earlier call.
  package var kept: UInt64 = 0
  /// Files whose content is not on this device; of many the first.
  package var placeholders: [PathBytes] = []
  package var unlisted: UInt64 = 0
  /// Items that could not be copied, or not with all that belongs to them.
  package var failed: UInt64 = 0
  /// Of many the first.
  package var failures: [UnrestoredItem] = []

  package init(directory: PathBytes) { self.directory = directory }
}

package struct UnrestoredItem: Codable, Sendable {
  /// From the directory that was named. Of a directory it stands for all that is below it.
  package var path: PathBytes
  package var reason: String

  package init(path: PathBytes, reason: String) {
    self.path = path
    self.reason = reason
  }
}

extension Methods {
  package enum ListSetAside: ControlMethod {
    package typealias Parameters = Nothing
    package typealias Answer = SetAsideReport
    package static let name = "setAside.list"
  }

  package enum RestoreSetAside: ControlMethod {
    package typealias Parameters = SetAsideRequest
    package typealias Answer = RestoredSetAside
    package static let name = "setAside.restore"
  }

  package enum RemoveSetAside: ControlMethod {
    package typealias Parameters = SetAsideRequest
    package typealias Answer = Nothing
    package static let name = "setAside.remove"
  }

  /// Sets aside what this device has of a container.
  package enum AddSetAside: ControlMethod {
    package typealias Parameters = ContainerRequest
    package typealias Answer = SetAsideEntry
    package static let name = "setAside.add"
  }
}
