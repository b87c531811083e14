import Glibc
import OperationSequences

/// An errno that the reference expects.
struct Refusal: Error {
  let code: Int32
  init(_ code: Int32) { self.code = code }
}

/// What a local file system is, as simply as it can be said: nodes and dictionaries in memory. The
/// source of every rule is the manual page of the system call. Paths are not followed through
/// symbolic links, and permissions are not checked: both are the kernel's.
final class ReferenceFileSystem {
  struct Slot {
    let node: ReferenceNode
    let flags: OpenFlags
    /// Its close finds committed what was done through it.
    let isFlushed: Bool
    var listing = ReferenceListing()
  }

  /// What a step has to give.
  enum Expectation {
    case exactly(Outcome)
    case when((Outcome) -> String?)
  }

  private(set) var root: ReferenceNode
  var slots: [Int: Slot] = [:]
  /// What the last step may have changed.
  private(set) var touched: [ReferenceNode] = []
  /// Steps done.
  private(set) var count = 0
  /// What the first so many steps did survives the end of the process.
  private(set) var committed = 0
  private(set) var user = User.root
  /// Files by their numbers, whether they have a name or not.
  private(set) var everMade: [UInt64: ReferenceNode] = [:]

  init(root: ReferenceNode) { self.root = root }

  /// Does a step; nil when `outcome` is what it has to give.
  func run(_ step: Action, gave outcome: Outcome) -> String? {
    touched = []
    count += 1
    user = step.user
    do {
      switch try perform(step.operation) {
      case .exactly(let expected):
        return outcome == expected ? nil : "gave \(outcome), expected \(expected)"
      case .when(let check):
        return check(outcome)
      }
    } catch let refusal as Refusal {
      return outcome == .failed(refusal.code)
        ? nil : "gave \(outcome), expected errno \(refusal.code)"
    } catch {
      return "\(error)"
    }
  }

  /// The numbers of what the last step made are known.
  func noteNumbers() {
    for node in touched where node.kind == .file {
      if let number = node.number { everMade[number] = node }
    }
  }

  func noteCommitted(_ steps: Int? = nil) { committed = max(committed, steps ?? count) }

  /// The process ended: nothing is open any more.
  func closeAll() {
    for slot in slots.keys { close(slot) }
  }

  /// The tree is taken from what was found, after it was found to be right.
  func replaceRoot(_ node: ReferenceNode) {
    slots = [:]
    root = node
    committed = count
  }

  func touch(_ node: ReferenceNode) {
    if !touched.contains(where: { $0 === node }) { touched.append(node) }
  }

  /// Entries of the directory changed.
  func touchEntries(_ directory: ReferenceNode, _ names: Name...) {
    directory.contentChanged()
    touch(directory)
    for number in slots.keys where slots[number]?.node === directory {
      for name in names {
        slots[number]?.listing.changed(name, isThere: directory.children[name] != nil)
      }
    }
  }

  /// What closing the node, if it is open, has to find committed.
  func note(_ node: ReferenceNode) { if node.openings > 0 { node.lastNoted = count } }

  // MARK: Finding

  func slot(_ number: Int) throws -> Slot {
    guard let slot = slots[number] else { throw Refusal(EBADF) }
    return slot
  }

  private func base(_ path: Path) throws -> ReferenceNode {
    guard let number = path.slot else { return root }
    return try slot(number).node
  }

  func find(_ path: Path) throws -> ReferenceNode {
    var node = try base(path)
    for name in path.names { node = try child(name, of: node) }
    return node
  }

  private func child(_ name: Name, of node: ReferenceNode) throws -> ReferenceNode {
    guard node.isDirectory else { throw Refusal(ENOTDIR) }
    guard name.bytes.count <= 255 else { throw Refusal(ENAMETOOLONG) }
    guard let child = node.children[name] else { throw Refusal(ENOENT) }
    return child
  }

  /// The directory that the path's last name is in, and that name.
  func place(_ path: Path) throws -> (directory: ReferenceNode, name: Name) {
    let directory = try find(Path(slot: path.slot, path.names.dropLast()))
    guard directory.isDirectory else { throw Refusal(ENOTDIR) }
    guard let name = path.names.last else { throw Refusal(EINVAL) }
    return (directory, name)
  }

  /// The same for a name that is to be made.
  func newPlace(_ path: Path) throws -> (directory: ReferenceNode, name: Name) {
    let (directory, name) = try place(path)
    guard name.bytes.count <= 255 else { throw Refusal(ENAMETOOLONG) }
    guard directory.links > 0 else { throw Refusal(ENOENT) }
    guard directory.children[name] == nil else { throw Refusal(EEXIST) }
    return (directory, name)
  }

  // MARK: Slots

  func add(_ node: ReferenceNode, _ flags: OpenFlags, isFlushed: Bool, to number: Int) {
    node.openings += 1
    slots[number] = Slot(node: node, flags: flags, isFlushed: isFlushed)
    slots[number]?.listing.rewind(node.children.keys)
  }

  func close(_ number: Int) {
    guard let slot = slots.removeValue(forKey: number) else { return }
    slot.node.openings -= 1
    if slot.isFlushed { noteCommitted(slot.node.lastNoted) }
  }
}
