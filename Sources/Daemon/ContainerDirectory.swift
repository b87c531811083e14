package import ControlProtocol
internal import FoundationEssentials
package import Model
internal import Platform
internal import SystemPackage

/// What a device keeps of a container: `containers/ID`, with `container.json`, `catalog.sqlite`,
/// `content/` and, where there is a budget of space, `uses` in it.
package struct ContainerDirectory: Sendable {
  private struct Description: Codable {
    var incarnation: String
  }

  package let id: ContainerID
  package let path: String

  package init(id: ContainerID, in parent: String) {
    self.id = id
    path = parent + "/" + id.description
  }

  package var catalog: String { path + "/catalog.sqlite" }
  package var content: String { path + "/content" }
  /// When files were last used.
  package var uses: String { path + "/uses" }
  private var description: String { path + "/container.json" }

  package var exists: Bool { Files.exists(description) }

  /// Which of the containers that had this name, one after the other, this one is.
  package func incarnation() throws(ControlError) -> IncarnationID {
    do {
      let bytes = try Files.read(description)
      let description = try BoundedJSON.decode(Description.self, from: bytes)
      if let id = IncarnationID(hex: description.incarnation) { return id }
    } catch {}
    throw ControlError(
      .failed,
      "\"\(description)\" is damaged; move \"\(path)\" away and mount again: uploaded files come "
        + "back")
  }

  /// Makes the directory. `container.json` comes last: without it there is no container.
  package func make(_ incarnation: IncarnationID) throws(ControlError) {
    do {
      try Files.makeDirectories(path)
      let encoder = JSONEncoder()
      let bytes = Array(try encoder.encode(Description(incarnation: "\(incarnation)")))
      try Files.replace(description, with: bytes + [0x0A])
    } catch {
      throw ControlError(.failed, "cannot create \"\(path)\": \(error)")
    }
  }

  /// The containers in a directory of them.
  package static func all(in parent: String) -> [ContainerDirectory] {
    ((try? Files.names(in: parent)) ?? []).compactMap { name in
      guard let id = try? ContainerID(name) else { return nil }
      let directory = ContainerDirectory(id: id, in: parent)
      return directory.exists ? directory : nil
    }
  }
}
