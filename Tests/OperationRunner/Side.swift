internal import CLinux
internal import Glibc
internal import OperationSequences

/// One of the two directories, and what a sequence has open in it. Every call is a plain system
/// call on a path relative to the directory, so that what is above it does not matter.
final class Side {
  let name: String
  /// The directory that all sequences are in.
  private let top: Int32
  private var base: Int32 = -1
  var slots: [Int: Int32] = [:]
  /// Where each name that a slot's listing gave ended.
  var offsets: [Int: [off_t]] = [:]
  /// Times that an action names are before it, those of any clock after.
  static let latestGiven: Int64 = 1_500_000_000_000_000_000

  init(name: String, path: String) throws {
    self.name = name
    top = Glibc.open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard top >= 0 else { throw RunnerFailure("\(path): errno \(errno)") }
  }

  deinit { Glibc.close(top) }

  /// Makes the directory of a sequence, or takes one that is there. It is called `base`, and has
  /// nothing beside it, for the links that go up and down again.
  func begin(_ directory: String, makes: Bool) throws {
    guard fchdir(top) == 0 else { throw RunnerFailure("\(name): fchdir: errno \(errno)") }
    if makes, mkdir(directory, 0o755) != 0 || mkdir(directory + "/base", 0o755) != 0 {
      throw RunnerFailure("\(name): \(directory): errno \(errno)")
    }
    base = Glibc.open(directory + "/base", O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard base >= 0 else { throw RunnerFailure("\(name): \(directory)/base: errno \(errno)") }
  }

  private func close(_ number: Int) {
    guard let old = slots.removeValue(forKey: number) else { return }
    Glibc.close(old)
    offsets[number] = nil
  }

  func closeSlots() {
    for slot in slots.values { Glibc.close(slot) }
    slots = [:]
    offsets = [:]
  }

  func end() {
    closeSlots()
    if base >= 0 { Glibc.close(base) }
    base = -1
  }

  func run(_ action: Action) -> Outcome {
    do {
      // What a slot had open is closed whether the path leads anywhere or not.
      if case .open(let number, _, _, _) = action.operation { close(number) }
      // As root, that entering the directory does not fail.
      try enter(action.operation.paths.first)
      become(action.user)
      defer { become(.root) }
      return try perform(action.operation)
    } catch let refusal as Refusal {
      return .failed(refusal.code)
    } catch {
      return .failed(-1)
    }
  }

  private func become(_ user: User) {
    // The user last where rights go, and first where they come back.
    if user == .root { _ = seteuid(0) }
    _ = setegid(user.rawValue)
    if user != .root { _ = seteuid(user.rawValue) }
  }

  /// Paths of one action are relative to the directory of the first: where they name two slots, the
  /// second is given by its descriptor.
  func enter(_ path: Path?) throws {
    let descriptor = try path?.slot.map { try slot($0) } ?? base
    try check(fchdir(descriptor))
  }

  func slot(_ number: Int) throws -> Int32 {
    guard let descriptor = slots[number] else { throw Refusal(EBADF) }
    return descriptor
  }

  /// Which directory a path is relative to.
  func directory(of path: Path) throws -> Int32 {
    try path.slot.map { try slot($0) } ?? base
  }

  @discardableResult
  func check<Value: SignedInteger>(_ result: Value) throws -> Value {
    guard result >= 0 else { throw Refusal(errno) }
    return result
  }
}

struct Refusal: Error {
  let code: Int32
  init(_ code: Int32) { self.code = code }
}

struct RunnerFailure: Error, CustomStringConvertible {
  let description: String
  init(_ description: String) { self.description = description }
}

extension Path {
  /// As a system call takes it, ended by 0.
  var text: [CChar] {
    let bytes = names.isEmpty ? [0x2E] : Array(names.map(\.bytes).joined(separator: [0x2F]))
    return bytes.map { CChar(bitPattern: $0) } + [0]
  }
}
