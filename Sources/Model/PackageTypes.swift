/// Which directories are one document by their name: the extensions of package types.
///
/// Whether a directory is a package is a function of its record: of its name, or of the mark that
/// `user.ubiquity.isPackage` sets.
package struct PackageTypes: Hashable, Sendable {
  /// In lower case, without the dot.
  private var extensions: Set<String>

  package init(extensions: [String]) {
    self.extensions = Set(extensions.map { $0.lowercased() })
  }

  /// Documents that well-known programs keep as directories, and bundles of programs. Folders of
  /// projects that people work in file by file are none, whatever their name.
  package static let standard = PackageTypes(extensions: [
    // Text, tables, slides.
    "pages", "numbers", "key", "rtfd", "textbundle", "scriv", "ulyssesgroup",
    // Drawings, plans, models.
    "graffle", "oo3", "oplx", "omnioutliner", "playground", "playgroundbook",
    "xcdatamodeld", "xcdatamodel", "swiftpm",
    // Music, film, photographs.
    "band", "logicx", "logic", "fcpbundle", "imovielibrary", "theater", "photoslibrary",
    "photolibrary", "aplibrary", "migratedphotolibrary", "musiclibrary", "tvlibrary", "cocatalog",
    // Code, plug-ins, disk images.
    "app", "bundle", "framework", "plugin", "kext", "xpc", "appex", "qlgenerator", "prefpane",
    "saver", "component", "vst", "vst3", "xcodeproj", "xcworkspace", "xcarchive", "dsym",
    "sparsebundle", "docset", "mpkg", "download", "bike", "dtbase2", "mindnode",
  ])

  /// With these, or, for an extension that begins with `-`, without it.
  package func changed(by changes: [String]) -> PackageTypes {
    var result = self
    for change in changes {
      if change.hasPrefix("-") {
        result.extensions.remove(Self.plain(change.dropFirst()))
      } else {
        result.extensions.insert(Self.plain(change[...]))
      }
    }
    return result
  }

  private static func plain(_ text: Substring) -> String {
    (text.hasPrefix(".") ? text.dropFirst() : text).lowercased()
  }

  /// A leading dot does not start an extension.
  package func contains(_ name: ItemName) -> Bool {
    guard let dot = name.bytes.lastIndex(of: 0x2E), dot > 0 else { return false }
    let text = String(decoding: name.bytes[(dot + 1)...], as: UTF8.self)
    return extensions.contains(text.lowercased())
  }

  /// The container itself and its `Documents` are no documents.
  package func isPackage(_ record: ItemRecord) -> Bool {
    guard record.kind == .directory, record.id != .root, record.id != .documents else {
      return false
    }
    return record.isPackage || record.links.contains { contains($0.name) }
  }
}
