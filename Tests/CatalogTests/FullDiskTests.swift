import Catalog
import Foundation
import Glibc
import Model
import Platform
import SystemPackage
import Testing

/// On a small file system of its own, which takes root; elsewhere the same is tried through a
/// mount.
@Suite(.serialized) struct FullDiskTests {
  /// A directory that is a file system of its own.
  private struct SmallDisk {
    let path = "/tmp/catalog-full-\(UUID().uuidString)"

    init(megabytes: Int) throws {
      try Files.makeDirectories(path)
      #expect(system("mount -t tmpfs -o size=\(megabytes)m none \(path)") == 0)
    }

    func remove() {
      _ = system("umount -l \(path)")
      try? Files.removeTree(path)
    }
  }

  /// What was done stays done when the disk is full, what cannot be is refused beforehand, removing
  /// works, and no content file goes whose row comes back.
  @Test(.enabled(if: getuid() == 0)) func whatWasDoneStaysDoneWhenTheDiskIsFull() throws {
    let disk = try SmallDisk(megabytes: 24)
    defer { disk.remove() }
    let directory = disk.path
    let catalog = try ContainerCatalog(
      path: directory + "/catalog.sqlite", owner: 0, group: 0, clock: SystemClock())
    let new = NewItem(kind: .file, mode: 0o644, owner: 0, group: 0)
    for index in 0..<100 {
      _ = try catalog.create(ItemName("before \(index)"), in: .root, new)
    }
    try catalog.commit(durable: true)

    // Done, not committed yet, when the disk fills up.
    for index in 0..<100 {
      _ = try catalog.create(ItemName("during \(index)"), in: .root, new)
    }
    let fill = "dd if=/dev/zero bs=64k 2>/dev/null >> \(directory)/fill"
    _ = system(fill)
    try catalog.commit(durable: true)
    // Who fills it goes on, and takes whatever the catalog lets go.
    var more = 0
    var refusal: Errno?
    while refusal == nil, more < 100_000 {
      do {
        _ = try catalog.create(ItemName("more \(more)"), in: .root, new)
        more += 1
        if more % 500 == 0 {
          try catalog.commit(durable: true)
          _ = system(fill)
        }
      } catch let error as Errno {
        refusal = error
      }
    }
    #expect(refusal == .noSpace)
    for index in 0..<100 {
      #expect(try catalog.lookup(ItemName("during \(index)"), in: .root) != nil)
    }
    _ = system(fill)
    for index in 0..<50 {
      let gone = try catalog.remove(ItemName("before \(index)"), in: .root, directory: false)
      _ = try catalog.reclaim(gone.number)
    }
    try catalog.commit(durable: true)
    try Files.remove(directory + "/fill")
    _ = try catalog.create(ItemName("after"), in: .root, new)
    try catalog.close()

    let again = try ContainerCatalog(
      path: directory + "/catalog.sqlite", owner: 0, group: 0, clock: SystemClock())
    #expect(try again.lookup(ItemName("after"), in: .root) != nil)
    #expect(try again.lookup(ItemName("before 0"), in: .root) == nil)
    #expect(try again.lookup(ItemName("during 99"), in: .root) != nil)
    for index in 0..<more {
      try #require(
        try again.lookup(ItemName("more \(index)"), in: .root) != nil, "\(index) of \(more)")
    }
    try again.close()
  }

  /// The disk fills up at once, while memory is ahead of many new rows.
  @Test(.enabled(if: getuid() == 0)) func removingWorksWhenManyRowsAreNotWrittenYet() throws {
    let disk = try SmallDisk(megabytes: 64)
    defer { disk.remove() }
    let directory = disk.path
    let catalog = try ContainerCatalog(
      path: directory + "/catalog.sqlite", owner: 0, group: 0, clock: SystemClock())
    let new = NewItem(kind: .file, mode: 0o644, owner: 0, group: 0)
    let count = 30_000
    for index in 0..<count {
      _ = try catalog.create(ItemName("file \(index)"), in: .root, new)
    }
    _ = system("dd if=/dev/zero bs=64k 2>/dev/null >> \(directory)/fill")
    for index in 0..<50 {
      let gone = try catalog.remove(ItemName("file \(index)"), in: .root, directory: false)
      _ = try catalog.reclaim(gone.number)
    }
    try catalog.commit(durable: true)
    try Files.remove(directory + "/fill")
    try catalog.close()

    let again = try ContainerCatalog(
      path: directory + "/catalog.sqlite", owner: 0, group: 0, clock: SystemClock())
    for index in 0..<count {
      let isThere = try again.lookup(ItemName("file \(index)"), in: .root) != nil
      try #require(isThere == (index >= 50), "file \(index)")
    }
    try again.close()
  }
}
