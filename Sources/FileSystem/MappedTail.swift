package import SystemPackage

/// The rest of the last page of a file, which a shared mapping can store to.
///
/// Those bytes are no part of the file, and have to read as zeros once the file grows. A local file
/// system sees to that, the kernel's FUSE does not: a page that a mapping changed before the file
/// grew keeps them, and is written back with them. With passthrough there are no such pages. So
/// where the kernel asks the daemon:
///
/// - Before a write, an allocation or a copy that leaves a gap after the end, the kernel is made to
///   drop its last page (`lastPage`). It writes back what is within the old length.
/// - During a change of length the kernel writes nothing back until it has its answer; then it
///   writes the page back and drops it, before the call returns. `OpenContent` keeps the gap
///   meanwhile and zeroes it after that write. A read of the page, or a write by a program, ends
///   this: both come after it.
enum MappedTail {
  static let pageSize: UInt64 = 4096

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

extension ContainerFileSystem {
  /// The last page of a file which the kernel may have and has to drop before something is written
  /// at `offset`, or allocated up to there; nil where no gap is left after the end.
  package func lastPage(
    of handle: UInt64, beforeWritingAt offset: UInt64
  ) throws(Errno) -> Range<UInt64>? {
    let open = try handles.get(handle)
    guard open.canWrite, open.service != .kernel, open.content.cachedUpTo > 0 else { return nil }
    guard let gap = MappedTail.gap(from: try inode(open.number).size, to: offset) else {
      return nil
    }
    let page = MappedTail.page(of: gap)
    return open.content.takePage(page) ? page : nil
  }

  /// The kernel did not drop what `lastPage` gave.
  package func lastPageStays(_ page: Range<UInt64>, of handle: UInt64) {
    try? handles.get(handle).content.noteCached(upTo: page.upperBound)
  }
}
