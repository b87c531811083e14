import Catalog
import FileSystem
import Glibc
import Model
import Platform
import SystemPackage
import Testing

@Suite struct AttributeTests {
  let container: Container
  let number: InodeNumber
  private var system: ContainerFileSystem { container.system }

  init() throws {
    container = try Container()
    number = try container.create("a", "hello").number
  }

  private func set(_ name: String, _ value: String, _ mode: AttributeMode = .createOrReplace)
    throws
  {
    try system.setAttribute(container.name(name), Array(value.utf8), mode: mode, of: number)
  }

  private func get(_ name: String) throws -> String {
    String(decoding: try system.attribute(container.name(name), of: number), as: UTF8.self)
  }

  @Test func attributesAreKept() throws {
    try set("user.a", "1", .create)
    #expect(throws: Errno.fileExists) { try set("user.a", "2", .create) }
    #expect(throws: Errno.noData) { try set("user.b", "2", .replace) }
    try set("user.a", "3", .replace)
    #expect(try get("user.a") == "3")
    #expect(
      try system.attributeNames(
        of: number, withComputed: false, caller: Container.caller) == Array("user.a\0".utf8))
    try system.removeAttribute(container.name("user.a"), of: number)
    #expect(throws: Errno.noData) { try get("user.a") }
  }

  @Test func limitsAreThoseOfLinux() throws {
    #expect(throws: Errno.argListTooLong) {
      try set("user.a", String(repeating: "x", count: 65537))
    }
    try set("user.a", String(repeating: "x", count: 65536))
    #expect(throws: Errno.outOfRange) { try set("user." + String(repeating: "n", count: 251), "") }
    for space in ["user.", "security.", "trusted."] {
      #expect(throws: Errno.invalidArgument) { try set(space, "") }
      #expect(throws: Errno.invalidArgument) { try get(space) }
    }
    // Access control lists are carried (`AccessListTests`); this is none.
    #expect(throws: Errno.invalidArgument) { try set("system.posix_acl_access", "") }
    #expect(throws: Errno.notSupported) { try set("system.other", "") }
    let fifo = try container.make(.fifo, "f")
    #expect(throws: Errno.notPermitted) {
      try system.setAttribute(
        container.name("user.a"), [], mode: .createOrReplace, of: fifo)
    }
  }

  @Test func computedAttributesAreReadAndNotListed() throws {
    #expect(try get("user.ubiquity.container") == "iCloud.com.example.test")
    #expect(try get("user.ubiquity.isUploaded") == "0")
    #expect(try get("user.ubiquity.status").hasPrefix("{\"container\":"))
    #expect(throws: Errno.noData) { try get("user.ubiquity.downloadingError") }
    #expect(throws: Errno.noData) { try get("user.ubiquity.evict") }
    #expect(throws: Errno.noData) { try get("user.ubiquity.unknown") }
    #expect(
      try system.attributeNames(
        of: number, withComputed: false, caller: Container.caller
      ).isEmpty)
    let listed = String(
      decoding: try system.attributeNames(
        of: number, withComputed: true, caller: Container.caller), as: UTF8.self)
    #expect(listed.contains("user.ubiquity.status\0"))
    #expect(!listed.contains("evict"))
  }

  @Test func writingComputedAttributes() throws {
    #expect(throws: Errno.notPermitted) { try set("user.ubiquity.version", "1") }
    #expect(throws: Errno.notSupported) { try set("user.ubiquity.unknown", "1") }
    #expect(throws: Errno.resourceBusy) { try set("user.ubiquity.evict", "1") }
    #expect(throws: Errno.invalidArgument) { try set("user.ubiquity.pin", "yes") }
    try set("user.ubiquity.pin", "1")
    #expect(try get("user.ubiquity.isPinned") == "1")
    try set("user.ubiquity.pin", "0")
    #expect(try get("user.ubiquity.isPinned") == "0")
  }
}
