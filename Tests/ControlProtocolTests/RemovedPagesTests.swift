import ControlProtocol
import Testing

/// Removed items are listed in pages that fit a message.
@Suite struct RemovedPagesTests {
  private func item(_ number: Int, path: [UInt8], device: String = "laptop") -> ListedRemoved {
    ListedRemoved(
      id: "\(number)", container: "iCloud.com.example.notes", path: RemovedPages.shown(path),
      kind: "file", size: .max, removed: "2026-11-27T08:00:00.000000001Z",
      expires: "2026-12-27T08:00:00.000000001Z", device: device)
  }

  private func pages(of items: [ListedRemoved]) -> [RemovedReport] {
    var pages = RemovedPages()
    return items.compactMap { pages.add($0) } + [pages.last]
  }

  @Test("every page fits a message, and the pages have every item once and in order")
  func pages() throws {
    let names: [[UInt8]] = [
      Array("/home/user/notes/file".utf8), Array(repeating: 0x01, count: 900),
      Array(repeating: 0xFF, count: 3000), Array(repeating: 0x22, count: 2000),
      Array("/ü".utf8), Array(repeating: 0x2F, count: 100_000),
    ]
    let items = (0..<5_000).map { number in
      item(
        number, path: names[number % names.count],
        device: String(repeating: "\u{1}", count: number % 64))
    }
    let pages = pages(of: items)
    #expect(pages.count > 1)
    for page in pages {
      let line = try Message.notification(method: Notifications.trashItems, page)
      #expect(line.count <= LineBuffer.maximumLength)
    }
    #expect(pages.flatMap(\.items).map(\.id) == items.map(\.id))
    #expect(pages.dropLast().allSatisfy { !$0.items.isEmpty })
  }

  @Test("a path that is longer than a message is shown by its end")
  func longPaths() throws {
    let name = Array(repeating: UInt8(ascii: "a"), count: 254)
    let path = Array(Array(repeating: [0x2F] + name, count: 10_000).joined()) + Array("/last".utf8)
    let pages = pages(of: (0..<40).map { item($0, path: path) })
    for page in pages {
      let line = try Message.notification(method: Notifications.trashItems, page)
      #expect(line.count <= LineBuffer.maximumLength)
    }
    let shown = try #require(pages.first?.items.first).path.bytes
    #expect(shown.starts(with: Array("…/aaa".utf8)))
    #expect(shown.suffix(5) == Array("/last".utf8)[...])
    #expect(RemovedPages.shown(Array("/a/b".utf8)) == PathBytes("/a/b"))
  }

  @Test func nothingIsOneEmptyPage() {
    let pages = pages(of: [])
    #expect(pages.count == 1)
    #expect(pages[0].items.isEmpty)
  }
}
