import Catalog
import FileSystem
import Model
import OperationSequences
import SystemPackage

/// What is done to the container between the steps of a sequence, which programs must not notice.
enum Upkeep: String, Sendable, CaseIterable {
  /// Now and then the kernel forgets and the catalog commits.
  case seldom
  /// A commit after each step.
  case commits
  /// A commit and a clean stop and start after each step.
  case restarts
  /// Now and then an end as by a kill: what was committed is there, of the rest a beginning.
  case kills
}

/// One sequence on a container and on the reference, side by side.
final class ModelRun {
  let container: ModelContainer
  let driver: ModelDriver
  let reference: ReferenceFileSystem
  private let upkeep: Upkeep
  private var random: SeededGenerator
  /// Without their contents, the trees after each step since the last that is known to be
  /// committed.
  private var history: [(count: Int, tree: [String: TreeEntry])] = []
  private var trace: ((String) -> Void)?

  /// `name` is a directory of the run's own, which is made.
  init(
    _ container: ModelContainer, name: String, seed: UInt64, upkeep: Upkeep,
    trace: ((String) -> Void)? = nil
  ) throws {
    self.container = container
    self.upkeep = upkeep
    self.trace = trace
    random = SeededGenerator(seed: seed ^ 0x5555)
    let made = try container.system.make(
      Array(name.utf8), in: .root, NewItem(kind: .directory, mode: 0o755, owner: 0, group: 0))
    driver = ModelDriver(container, root: made.inode.number)
    let root = ReferenceNode(.directory, mode: 0o755, user: 0, group: 0)
    root.number = made.inode.number.rawValue
    reference = ReferenceFileSystem(root: root)
    _ = root.check(ModelDriver.describe(made), within: 0...Int64.max)
    if upkeep == .kills {
      try container.catalog.commit(durable: false)
      remember()
    }
  }

  /// Nil when all steps gave what they have to.
  func run(_ steps: [Action]) throws -> String? {
    for (index, step) in steps.enumerated() {
      if let problem = try run(step) { return "step \(index), \(step): \(problem)" }
      if let problem = try maintain() { return "after step \(index), \(step): \(problem)" }
    }
    return try finish()
  }

  private func run(_ step: Action) throws -> String? {
    let before = container.clock.nanoseconds()
    let outcome = try driver.run(step)
    let after = container.clock.nanoseconds()
    trace?("\(step): \(outcome)")
    if let problem = reference.run(step, gave: outcome) { return problem }
    if let problem = try checkTouched(before...after) { return problem }
    if upkeep == .kills {
      reference.noteNumbers()
      remember()
    }
    return nil
  }

  /// What a step may have changed, and nothing else, has new attributes.
  private func checkTouched(_ window: ClosedRange<Int64>) throws -> String? {
    for node in reference.touched where node.links > 0 || node.openings > 0 {
      let status: ItemStatus
      do {
        if let number = node.number {
          status = try driver.status(InodeNumber(number))
        } else if let (parent, name) = node.madeAs, let above = parent.number,
          let found = try driver.lookup(name, in: InodeNumber(above))
        {
          status = ModelDriver.describe(found)
        } else {
          return "what was made is not there"
        }
      } catch let error as Errno {
        return "\(error) for what the step changed"
      }
      let problems = node.check(status, within: window)
      if !problems.isEmpty { return problems.joined(separator: ", ") }
    }
    return nil
  }

  // MARK: Between steps

  private func maintain() throws -> String? {
    switch upkeep {
    case .commits:
      try container.catalog.commit(durable: Bool.random(using: &random))
    case .restarts:
      return try restart()
    case .seldom:
      if Int.random(in: 0..<20, using: &random) == 0 { driver.forget() }
      if Int.random(in: 0..<40, using: &random) == 0 {
        try container.catalog.commit(durable: false)
      }
    case .kills:
      switch Int.random(in: 0..<24, using: &random) {
      case 0: return try kill()
      case 1:
        try container.catalog.commit(durable: Bool.random(using: &random))
        reference.noteCommitted()
      case 2: driver.forget()
      case 3: return try restart()
      default: break
      }
    }
    return nil
  }

  private func restart() throws -> String? {
    try driver.closeAll()
    reference.closeAll()
    try container.restart()
    driver.wasEnded()
    reference.noteCommitted()
    if upkeep == .kills { remember() }
    return try TreeCheck(driver).compare(reference)
  }

  private func remember() {
    history.removeAll { $0.count < reference.committed || $0.count == reference.count }
    history.append((reference.count, TreeCheck.entries(of: reference)))
  }

  /// Afterwards the tree is that after some step, and none before the last that was committed; and
  /// every file has the bytes that were last written to it.
  private func kill() throws -> String? {
    try container.abandon()
    driver.wasEnded()
    trace?("(killed)")
    let check = TreeCheck(driver)
    let found = try check.read()
    let possible = history.filter { $0.count >= reference.committed }
    guard possible.contains(where: { $0.tree == found.entries }) else {
      let nearest = possible.last?.tree ?? [:]
      return "after a kill the tree is none that there was since step \(reference.committed); "
        + "against the last: " + TreeCheck.differences(found.entries, nearest)
    }
    if let problem = check.compareContents(found.root, reference) { return problem }
    reference.replaceRoot(found.root)
    history = []
    remember()
    let problems = try container.problems()
    driver.wasEnded()
    return problems.isEmpty ? nil : problems.joined(separator: ", ")
  }

  private func finish() throws -> String? {
    let check = TreeCheck(driver)
    if let problem = try check.compare(reference) { return problem }
    try driver.closeAll()
    reference.closeAll()
    driver.forget()
    return try check.compare(reference)
  }
}
