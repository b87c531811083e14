internal import Catalog
internal import ContentStore
internal import Coordination
internal import Model
internal import Platform

/// The download of one inode's content: what is wanted, what is on its way, who waits.
///
/// While there is a job for an inode only that job makes or fills its partial file: a second one
/// could empty a file that the first has just declared whole.
struct DownloadJob {
  struct Waiter {
    let request: Request
    /// Chunks that have to come before it is told.
    var missing: Set<Int>
    /// It asked for everything, so it is told after the catalog says that the content is local.
    var wantsAll: Bool

    var completion: @Sendable (Result<Void, FetchFailure>) -> Void { request.completion }
  }

  /// What is known once the catalog was asked.
  struct Source {
    let key: ContentKey
    let partial: PartialContent
    let chunks: [ChunkReference]
    /// Where each chunk starts in the file.
    let offsets: [UInt64]
    /// Of a large content, as long as any of it is on its way.
    let blocks: LargeBlockUse?

    /// Contents of less come with one request, of which a single block is large.
    static let largeSize: UInt64 = 4 << 20
  }

  struct Request {
    let waiter: UInt64
    let range: Range<UInt64>
    let cause: DownloadCause
    /// No program waits for it.
    let isBackground: Bool
    let completion: @Sendable (Result<Void, FetchFailure>) -> Void

    var ofAll: Request {
      Request(
        waiter: waiter, range: 0..<UInt64.max, cause: cause, isBackground: isBackground,
        completion: completion)
    }
  }

  /// No other job has it: an answer that was asked for by one is no other's.
  let id: UInt64
  var source: Source?
  /// Requests that came before `source` was known.
  var early: [Request] = []
  var waiters: [UInt64: Waiter] = [:]
  /// Chunks to ask for, those of small requests first.
  var urgent: [Int] = []
  var background: [Int] = []
  /// Chunks that are wanted, on their way or here.
  var requested: Set<Int> = []
  /// Who wanted them first, of those that are not here yet.
  var causes: [Int: DownloadCause] = [:]
  var requestsInFlight = 0
  var isFinishing = false

  /// A request of up to this many bytes is somebody's read; a larger one is a download.
  static let urgentLimit: UInt64 = 4 << 20
  /// Bytes of chunks that are asked for at once: more where the backend brings them fast, less
  /// where a reader would wait long for the first of them.
  private(set) var batchLimit: UInt64
  static let firstBatchLimit: UInt64 = 4 << 20
  private static let batchLimits: ClosedRange<UInt64> = 512 << 10...8 << 20

  init(id: UInt64, batchLimit: UInt64) {
    self.id = id
    self.batchLimit = batchLimit
  }

  /// The same requests of the content that the inode has now. What is on its way for the old one is
  /// nobody's.
  func successor(id: UInt64) -> DownloadJob {
    var result = DownloadJob(id: id, batchLimit: batchLimit)
    // Who wanted all of it wants all of what there is now.
    let late = waiters.values.map { $0.wantsAll ? $0.request.ofAll : $0.request }
    result.early = early + late.sorted { $0.waiter < $1.waiter }
    return result
  }

  /// A background request keeps the job until the whole content is local.
  var hasBackground: Bool {
    early.contains { $0.isBackground } || waiters.values.contains { $0.request.isBackground }
  }

  mutating func add(_ request: Request) {
    guard let source else {
      early.append(request)
      return
    }
    let indices = Self.chunkIndices(of: request.range, in: source)
    let missing = Set(indices.filter { !Self.isPresent($0, in: source) })
    waiters[request.waiter] = Waiter(
      request: request, missing: missing,
      wantsAll: request.range.lowerBound == 0 && request.range.upperBound >= source.partial.size)
    let isUrgent = request.range.upperBound - request.range.lowerBound <= Self.urgentLimit
    for index in indices where missing.contains(index) {
      if requested.insert(index).inserted {
        causes[index] = request.cause
        if isUrgent { urgent.append(index) } else { background.append(index) }
      } else if isUrgent, let place = background.firstIndex(of: index) {
        background.remove(at: place)
        urgent.append(index)
      }
    }
  }

  /// The next chunks to ask for: a run of neighbours.
  mutating func nextBatch() -> [Int] {
    guard let source else { return [] }
    var batch: [Int] = []
    var bytes: UInt64 = 0
    let isUrgent = !urgent.isEmpty
    var queue = isUrgent ? urgent : background
    while let index = queue.first {
      let length = UInt64(source.chunks[index].length)
      if let last = batch.last, index != last + 1 || bytes + length > batchLimit { break }
      batch.append(index)
      bytes += length
      queue.removeFirst()
    }
    if isUrgent { urgent = queue } else { background = queue }
    return batch
  }

  /// A request for so many bytes was answered after so long.
  mutating func noteAnswer(_ bytes: UInt64, after time: Duration) {
    if time > .seconds(2) {
      batchLimit = max(Self.batchLimits.lowerBound, batchLimit / 2)
    } else if time < .milliseconds(500), bytes > batchLimit / 2 {
      batchLimit = min(Self.batchLimits.upperBound, batchLimit * 2)
    }
  }

  /// How many requests may be on their way now. Somebody's read does not wait for those that fetch
  /// ahead.
  var requestLimit: Int { urgent.isEmpty ? 6 : 10 }

  /// Takes out why chunks were wanted, with the bytes that are for each reason.
  mutating func takeCauses(of batch: [Int]) -> [DownloadCause: UInt64] {
    var result: [DownloadCause: UInt64] = [:]
    for index in batch {
      guard let cause = causes.removeValue(forKey: index) else { continue }
      result[cause, default: 0] += UInt64(source?.chunks[index].length ?? 0)
    }
    return result
  }

  /// Takes out the waiters that no program is behind, and the chunks that only they wanted.
  mutating func dropBackground() -> [Waiter] {
    let dropped = waiters.filter { $0.value.request.isBackground }
    for id in dropped.keys { waiters[id] = nil }
    forgetUnneeded()
    return Array(dropped.values)
  }

  /// Takes out a waiter, wherever it is, and the chunks that only it wanted.
  mutating func drop(_ waiter: UInt64) -> Request? {
    if let place = early.firstIndex(where: { $0.waiter == waiter }) {
      return early.remove(at: place)
    }
    guard let dropped = waiters.removeValue(forKey: waiter) else { return nil }
    forgetUnneeded()
    return dropped.request
  }

  /// What is on its way stays requested: it comes.
  private mutating func forgetUnneeded() {
    let needed = waiters.values.reduce(into: Set<Int>()) { $0.formUnion($1.missing) }
    for index in background + urgent where !needed.contains(index) {
      requested.remove(index)
      causes[index] = nil
    }
    background.removeAll { !needed.contains($0) }
    urgent.removeAll { !needed.contains($0) }
  }

  /// Takes out the waiters that have all they asked for.
  mutating func satisfied(isWhole: Bool) -> [Waiter] {
    let done = waiters.filter { $0.value.missing.isEmpty && (isWhole || !$0.value.wantsAll) }
    for id in done.keys { waiters[id] = nil }
    return Array(done.values)
  }

  static func chunkIndices(of range: Range<UInt64>, in source: Source) -> Range<Int> {
    guard !source.chunks.isEmpty, range.lowerBound < source.partial.size else { return 0..<0 }
    let first = chunk(at: range.lowerBound, in: source)
    guard range.upperBound > range.lowerBound else { return first..<first }
    let last = chunk(at: min(range.upperBound, source.partial.size) - 1, in: source)
    return first..<(last + 1)
  }

  static func isPresent(_ index: Int, in source: Source) -> Bool {
    let start = source.offsets[index]
    return source.partial.isPresent(start..<(start + UInt64(source.chunks[index].length)))
  }

  private static func chunk(at offset: UInt64, in source: Source) -> Int {
    var low = 0
    var high = source.offsets.count - 1
    while low < high {
      let middle = (low + high + 1) / 2
      if source.offsets[middle] <= offset { low = middle } else { high = middle - 1 }
    }
    return low
  }
}
