package import Model

/// The request of `store verify`.
package struct VerifyOptions: Sendable {
  /// Every byte is read, deciphered and checked; else only names and sizes are looked at.
  package var readsData: Bool
  /// Of the objects that would be read, so many percent are, chosen at random.
  package var sample: Double

  package init(readsData: Bool = false, sample: Double = 100) {
    self.readsData = readsData
    self.sample = sample
  }

  func isChosen() -> Bool { sample >= 100 || Double.random(in: 0..<100) < sample }
}

/// Something that the store does not have as the log says.
package enum VerifyProblem: Hashable, Sendable {
  /// An object that is no content: of the log, or of a snapshot.
  case object(String, reason: String)
  /// A file, or what is kept of one.
  case item(path: [ItemName], VerifiedContent)
}

package enum VerifiedContent: Hashable, Sendable {
  case current
  case conflictVersion
  /// It was removed and can be brought back.
  case removed
}

/// The findings of `store verify` in one container.
package struct VerifyReport: Sendable {
  /// Objects that the log references.
  package var objects: UInt64 = 0
  package var checked: UInt64 = 0
  package var missing: [VerifyProblem] = []
  package var damaged: [VerifyProblem] = []
  /// Files whose content was uploaded again, and snapshots that were written again.
  package var repaired: UInt64 = 0
  /// Files whose content is local, and whose upload is still to be done.
  package var pending: UInt64 = 0
  /// Problems beyond those that are listed.
  package var unlisted: UInt64 = 0

  static let mostProblems = 10_000

  package var isWell: Bool { missing.isEmpty && damaged.isEmpty && pending == 0 && unlisted == 0 }

  mutating func add(_ problem: VerifyProblem, isMissing: Bool) {
    guard missing.count + damaged.count < Self.mostProblems else {
      unlisted += 1
      return
    }
    if isMissing { missing.append(problem) } else { damaged.append(problem) }
  }
}
