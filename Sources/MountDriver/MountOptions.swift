/// The options of `mount -o`, checked.
package struct MountOptions: Hashable, Sendable {
  package enum Policy: String, Hashable, Sendable {
    /// Content comes when it is read.
    case onDemand = "ondemand"
    /// Content comes as soon as it is known of.
    case greedy
  }

  package enum Passthrough: String, Hashable, Sendable {
    /// Where kernel and rights allow it.
    case auto
    case off
  }

  package var policy: Policy = .onDemand
  /// Whether the kernel reads and writes local files by itself.
  package var passthrough: Passthrough = .auto
  package var isReadOnly = false
  /// Users other than the owner may use the mount.
  package var allowsOthers = false
  /// `listxattr` lists `user.ubiquity.*` too.
  package var listsStatus = false
  /// Names are found without regard to case and Unicode form.
  package var foldsCase = false
  /// Opens wait for claims.
  package var waitsForClaims = false
  /// Processors are kept from sleeping while requests come one after the other.
  package var isEager = true
  /// What the kernel is told as it is: `nosuid`, `noexec`, ...
  package var kernelOptions: [String] = []

  package init() {}

  package struct Invalid: Error, Hashable, Sendable, CustomStringConvertible {
    package let description: String
  }

  /// Reads comma-separated lists, as given with `-o`, in order; later ones win.
  ///
  /// What mount(8) passes along and means nothing here is accepted, as CONTRACT says.
  package init(parsing lists: [String]) throws(Invalid) {
    for list in lists {
      for option in list.split(separator: ",") {
        let parts = option.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        try apply(String(parts[0]), parts.count > 1 ? String(parts[1]) : nil)
      }
    }
  }

  private mutating func apply(_ name: String, _ value: String?) throws(Invalid) {
    if name.hasPrefix("x-") || name.hasPrefix("X-") || name == "comment" { return }
    if name == "policy" {
      guard let value, let policy = Policy(rawValue: value) else {
        throw Invalid(description: "policy must be ondemand or greedy, not \"\(value ?? "")\"")
      }
      self.policy = policy
      return
    }
    // Of an earlier version, which stored it with every mount.
    if name == "io_uring" { return }
    if name == "busy_poll" {
      guard let value, ["auto", "off"].contains(value) else {
        throw Invalid(description: "busy_poll must be auto or off, not \"\(value ?? "")\"")
      }
      isEager = value == "auto"
      return
    }
    if name == "passthrough" {
      guard let value, let passthrough = Passthrough(rawValue: value) else {
        throw Invalid(description: "passthrough must be auto or off, not \"\(value ?? "")\"")
      }
      self.passthrough = passthrough
      return
    }
    if name == "coordination" {
      guard let value, ["advisory", "mandatory"].contains(value) else {
        throw Invalid(
          description: "coordination must be advisory or mandatory, not \"\(value ?? "")\"")
      }
      waitsForClaims = value == "mandatory"
      return
    }
    guard value == nil else {
      throw Invalid(description: "unknown mount option \"\(name)=\(value ?? "")\"")
    }
    switch name {
    case "ro": isReadOnly = true
    case "rw": isReadOnly = false
    case "allow_other": allowsOthers = true
    case "list_status": listsStatus = true
    case "casefold": foldsCase = true
    // Always on.
    case "default_permissions": break
    case "suid", "nosuid", "dev", "nodev", "exec", "noexec", "noatime", "sync", "dirsync":
      setKernelOption(name)
    // For fstab(5): mount(8) keeps `dev` and `suid` from helpers, since they are its defaults, and
    // all that begins with `x-`.
    case "allow_dev", "allow_suid": setKernelOption(String(name.dropFirst("allow_".count)))
    // For mount(8) and the system's start, or the kernel's default.
    case "defaults", "auto", "noauto", "user", "nouser", "users", "nousers", "owner", "group",
      "_netdev", "nofail", "relatime", "norelatime", "atime", "diratime", "strictatime", "async",
      "lazytime", "nolazytime",
      // libfuse refuses it. Reading a directory changes no time in any case.
      "nodiratime":
      break
    default:
      throw Invalid(description: "unknown mount option \"\(name)\"")
    }
  }

  /// `nodev` takes back `dev` and the other way round.
  private mutating func setKernelOption(_ name: String) {
    let opposite = name.hasPrefix("no") ? String(name.dropFirst(2)) : "no" + name
    kernelOptions.removeAll { $0 == name || $0 == opposite }
    kernelOptions.append(name)
  }

  /// A list that `init(parsing:)` makes the same of.
  package var text: String {
    var result = ["policy=\(policy.rawValue)", "passthrough=\(passthrough.rawValue)"]
    result.append("busy_poll=\(isEager ? "auto" : "off")")
    result.append("coordination=\(waitsForClaims ? "mandatory" : "advisory")")
    if isReadOnly { result.append("ro") }
    if allowsOthers { result.append("allow_other") }
    if listsStatus { result.append("list_status") }
    if foldsCase { result.append("casefold") }
    return (result + kernelOptions).joined(separator: ",")
  }

  /// What libfuse is given.
  func libraryOptions(source: String) -> [String] {
    var result = ["fsname=\(source)", "subtype=ubiquityfs", "default_permissions"]
    result.append(isReadOnly ? "ro" : "rw")
    if allowsOthers { result.append("allow_other") }
    return result + kernelOptions
  }
}
