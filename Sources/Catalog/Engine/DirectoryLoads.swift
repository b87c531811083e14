internal import Model

/// Finds out which directories are looked through name by name, and how much of one to bring into
/// memory at once: one query for many entries costs much less than two for each.
///
/// The second name that is missed in a directory has its first entries brought here, which is all
/// of most. In a larger one only misses in the order of its entries make a window go ahead of them:
/// it grows while every entry of it is wanted, and shrinks when some were passed over. Who looks
/// here and there pays for single names.
struct DirectoryLoads {
  struct Request: Equatable {
    let after: Int64
    let limit: Int
  }

  private struct Progress {
    /// More than one load brings here.
    var isLarge = false
    /// Misses in a row that each went forward.
    var run = 1
    var last: Int64
    var window = 0
    /// The first entry behind the window.
    var next: Int64?
  }

  static let whole = 512
  static let smallestWindow = 8
  static let largestWindow = 1024
  /// So many misses in order are none by chance.
  static let longEnough = 6
  /// Directories that are kept in mind.
  private static let limit = 64

  private var directories: [InodeNumber: Progress] = [:]

  /// Memory did not know of the entry `id`; what to bring now.
  mutating func missed(_ id: Int64, in directory: InodeNumber) -> Request? {
    guard var progress = directories[directory] else {
      if directories.count >= Self.limit { directories.removeAll(keepingCapacity: true) }
      directories[directory] = Progress(last: id)
      return nil
    }
    defer { directories[directory] = progress }
    progress.run = id > progress.last ? progress.run + 1 : 1
    progress.last = id
    guard progress.isLarge else { return Request(after: 0, limit: Self.whole) }
    if progress.run == 1 { progress.window = 0 }
    let isNext = id == progress.next
    guard isNext || progress.run >= Self.longEnough else { return nil }
    progress.window = min(
      Self.largestWindow,
      max(Self.smallestWindow, isNext ? progress.window * 4 : progress.window / 4))
    return Request(after: id - 1, limit: progress.window)
  }

  /// What was to be brought is here. `next` is the entry behind it, nil where there is none.
  mutating func loaded(_ directory: InodeNumber, _ request: Request, next: Int64?) {
    guard var progress = directories[directory] else { return }
    if request.after == 0 {
      progress.isLarge = next != nil
      progress.window = Self.whole
    }
    progress.next = next
    directories[directory] = progress
  }
}

extension Engine {
  /// Goes on from a name that the database had to be asked for.
  func bringAhead(_ parent: InodeNumber, missed id: Int64) {
    guard let request = loads.missed(id, in: parent) else { return }
    // One more than is kept, to know what comes next. A row that cannot be read is the concern of
    // whoever asks for it.
    let found = try? read { db in
      try queries.readDirectory.all(db, parent.column, request.after, Int64(request.limit + 1)) {
        row in
        DirectoryEntry(
          offset: row.integer(0), name: try row.name(1), inode: try Inode(row, from: 2))
      }
    }
    guard let found else { return }
    for entry in found.prefix(request.limit) {
      if pending.entry(parent, entry.name) == nil,
        flushing?.overlay.entry(parent, entry.name) == nil
      {
        names.insert(
          EntryKey(parent: parent, name: entry.name),
          EntryValue(child: entry.inode.number, id: entry.offset))
      }
      remember(entry.inode)
    }
    let next = found.count > request.limit ? found[request.limit].offset : nil
    loads.loaded(parent, request, next: next)
  }

  /// Keeps a row that was just read, unless memory knows better.
  func remember(_ row: Inode) {
    if change(row.number) == nil { inodes.insert(row.number, row) }
  }
}
