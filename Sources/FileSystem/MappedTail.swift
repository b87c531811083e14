internal import Glibc
package import SystemPackage

/// The rest of the last page of a file, which a shared mapping can store to.
///
/// Those bytes are no part of the file, and have to read as zeros once the file grows. A local file
/// system sees to that, the kernel's FUSE does not: a page that a mapping changed before the file
/// grew keeps them, and is written back with them. With passthrough there are no such pages. So
/// where the kernel asks the daemon:
///
/// - After a write, an allocation or a copy that leaves a gap after the old end, and before its
///   answer, the kernel is made to drop what was the last page (`Growth`). It writes back what is
///   within the old length, since it learns the new one from the answer.
/// - During a change of length the kernel writes nothing back until it has its answer; then it
///   writes the page back and drops it, before the call returns.
///
/// `OpenContent` keeps the gap meanwhile, and zeroes it after the page was written back with it. A
/// read of the page, or a write of a program to it, ends this: both come after the drop.
enum MappedTail {
  static let pageSize = UInt64(getpagesize())

  /// Rounded up to whole pages.
  static func pages(upTo size: UInt64) -> UInt64 {
    let rest = size % pageSize
    return rest == 0 ? size : (size - rest) &+ pageSize
  }

  /// What of the last page becomes part of a file of `size` that grows to `end`; nil where nothing
  /// does.
  static func gap(from size: UInt64, to end: UInt64) -> Range<UInt64>? {
    let rest = size % pageSize
    guard rest != 0, end > size else { return nil }
    return size..<min(end, size - rest + pageSize)
  }

  /// The pages that lie in a range as a whole; nil if none does.
  static func wholePages(in range: Range<UInt64>) -> Range<UInt64>? {
    let (raised, overflow) = range.lowerBound.addingReportingOverflow(pageSize - 1)
    let start = raised - raised % pageSize
    let end = range.upperBound - range.upperBound % pageSize
    return overflow || start >= end ? nil : start..<end
  }

  static func page(of gap: Range<UInt64>) -> Range<UInt64> {
    let start = gap.lowerBound - gap.lowerBound % pageSize
    return start..<(start + pageSize)
  }
}

/// A change that leaves a gap after a file's old end, in a page that the kernel may have.
package struct Growth: Sendable {
  let gap: Range<UInt64>
  /// The page that the kernel has to drop.
  package var page: Range<UInt64> { MappedTail.page(of: gap) }

  /// Whether what is written at the offset begins in the page.
  package func holds(_ offset: UInt64) -> Bool { offset < page.upperBound }
}

extension ContainerFileSystem {
  /// To be called before a program's write at `offset`, or an allocation up to there. Nil where no
  /// gap is left after the end, or the kernel has no page of it.
  package func growth(of handle: UInt64, to offset: UInt64) throws(Errno) -> Growth? {
    let open = try handles.get(handle)
    guard open.canWrite, open.service != .kernel, open.content.cachedUpTo > 0 else { return nil }
    guard let gap = MappedTail.gap(from: try inode(open.number).size, to: offset) else {
      return nil
    }
    return open.content.cachedUpTo > gap.lowerBound - gap.lowerBound % MappedTail.pageSize
      ? Growth(gap: gap) : nil
  }

  /// To be called after that change, and before the kernel drops the page.
  package func noteGrowth(_ growth: Growth, of handle: UInt64) throws(Errno) {
    try handles.get(handle).content.noteGrowth(growth)
  }
}
