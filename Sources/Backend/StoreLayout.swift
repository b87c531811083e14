extension StoreKey {
  /// Whether ubiquityfs can have objects right in a directory: `names/`, `containers/X/log/`. The
  /// directory is named from the top of the store on, and its name ends in `/`.
  ///
  /// **Invariant: true for every directory above every key that ubiquityfs makes.** A list may pass
  /// over any other directory that it cannot read. It must fail for one of these, or it would hide
  /// objects, and its caller could take them for lost.
  package static func mayHoldObjects(_ directory: String) -> Bool {
    guard directory.hasSuffix("/") else { return false }
    let parts = directory.split(separator: "/", omittingEmptySubsequences: false).dropLast()
    guard parts.count > 1 else {
      return ["account/", "containers/", "deleted/", "devices/", "names/", "pairing/"]
        .contains(directory)
    }
    if directory == "account/members/" { return true }
    if parts[0] == "pairing" { return parts.count == 2 && isIdentity(parts[1]) }
    guard parts.count <= 4, parts[0] == "containers", isIdentity(parts[1]) else { return false }
    switch parts.count {
    case 2: return true
    case 3: return ["devices", "log", "packs", "snapshots"].contains(parts[2])
    // All other directories of a container have no directories in them.
    default: return parts[2] == "snapshots" && isSequence(parts[3])
    }
  }

  private static func isIdentity(_ name: Substring) -> Bool {
    name.utf8.count == 32
      && name.utf8.allSatisfy { (48...57).contains($0) || (97...102).contains($0) }
  }

  private static func isSequence(_ name: Substring) -> Bool {
    name.utf8.count == 20 && name.utf8.allSatisfy { (48...57).contains($0) }
  }
}
