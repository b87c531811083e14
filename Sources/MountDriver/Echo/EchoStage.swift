internal import Catalog
internal import FileSystem
internal import FuseKernel
internal import Model
internal import Platform
internal import Synchronization

/// A name in a directory, as the kernel says it.
struct EchoPlace: Hashable {
  let parent: UInt64
  let name: [UInt8]

  init(_ parent: InodeNumber, _ name: ItemName) {
    self.parent = parent.rawValue
    self.name = name.bytes
  }

  init(parent: UInt64, name: [UInt8]) {
    self.parent = parent
    self.name = name
  }
}

/// What the thread of the echo is to find and to do, for the handler of requests: to that thread
/// alone the names of a change are as they were before it, and of what it does just that is
/// answered as done.
final class EchoStage: Sendable {
  enum Answer: Equatable {
    case absent
    case present(InodeNumber, ItemKind)
  }

  enum Operation: Equatable {
    case make(EchoPlace, InodeNumber, ItemKind)
    case remove(EchoPlace, isDirectory: Bool)
    case move(from: EchoPlace, to: EchoPlace)
    /// Times are set, and the file may be opened.
    case touch(InodeNumber)
  }

  private struct State {
    var names: [EchoPlace: Answer] = [:]
    /// Where directories are found that were moved or are gone, until their turn comes.
    var former: [EchoPlace: Answer] = [:]
    var ghosts: [InodeNumber: ItemKind] = [:]
    var operation: Operation?
    var isDone = false
    /// Those of `names` that were looked up.
    var asked: Set<EchoPlace> = []
  }

  /// The number of opens that are none.
  static let handle = UInt64.max

  private let thread = Atomic<Int32>(0)
  private let former = Atomic<Int32>(0)
  private let record: MountRecord?

  init(record: MountRecord?) { self.record = record }

  /// The thread of an earlier daemon's echo. What it had asked for is not to be done either.
  func setFormer(thread number: Int32) { former.store(number, ordering: .releasing) }
  /// A leaf.
  private let state = Lock(State())

  // MARK: The echo's side

  func begin(thread number: Int32) {
    record?.setEcho(thread: number)
    thread.store(number, ordering: .releasing)
  }

  func end() {
    thread.store(0, ordering: .releasing)
    record?.setEcho(thread: 0)
    state.withLock { $0 = State() }
  }

  func setFormer(_ directories: [EchoPlace: Answer]) {
    state.withLock { state in
      state.former = directories
      for case .present(let number, let kind) in directories.values { state.ghosts[number] = kind }
    }
  }

  func dropFormer(_ place: EchoPlace) { state.withLock { $0.former[place] = nil } }

  func expect(_ operation: Operation?, where names: [EchoPlace: Answer]) {
    state.withLock { state in
      state.names = names
      for case .present(let number, let kind) in names.values { state.ghosts[number] = kind }
      state.operation = operation
      state.isDone = false
      state.asked = []
    }
  }

  /// Whether the operation came.
  var isDone: Bool { state.withLock { $0.isDone } }
  /// Whether a name of `names` was looked up.
  var wasAsked: Bool { state.withLock { !$0.asked.isEmpty } }
  /// Only what is looked up from here on counts.
  func forgetAsked() { state.withLock { $0.asked = [] } }

  // MARK: The handler's side

  func isOurs(_ caller: FuseCaller) -> Bool {
    if caller.request.isResent {
      let number = former.load(ordering: .acquiring)
      return number != 0 && number == caller.process
    }
    let number = thread.load(ordering: .relaxed)
    return number != 0 && number == caller.process
  }

  /// Nil for what is as it is.
  func answer(_ parent: UInt64, _ name: [UInt8]) -> Answer? {
    let place = EchoPlace(parent: parent, name: name)
    return state.withLock { state in
      if let answer = state.names[place] {
        state.asked.insert(place)
        return answer
      }
      return state.former[place]
    }
  }

  func isExpected(_ operation: Operation) -> Bool {
    state.withLock { $0.operation == operation }
  }

  /// Whether `operation` is the one that is expected. Anything else is not to be done. Nor is what
  /// takes a name away that was not looked up for it: then the kernel knows the name from somebody
  /// else who looked it up in between, and takes it for what has it now.
  func takes(_ operation: Operation) -> Bool {
    state.withLock { state in
      guard state.operation == operation else { return false }
      switch operation {
      case .remove(let place, _), .move(from: let place, _):
        guard state.asked.contains(place) else { return false }
      case .make, .touch: break
      }
      state.isDone = true
      return true
    }
  }

  /// What is made at the place, if that is expected.
  func takesMaking(_ parent: UInt64, _ name: [UInt8], _ kind: ItemKind) -> InodeNumber? {
    let place = EchoPlace(parent: parent, name: name)
    return state.withLock { state in
      guard case .make(place, let number, kind) = state.operation else { return nil }
      state.isDone = true
      return number
    }
  }

  /// The kind of one that the echo speaks of, which may be gone.
  func ghost(_ number: UInt64) -> ItemKind? {
    state.withLock { $0.ghosts[InodeNumber(number)] }
  }
}
