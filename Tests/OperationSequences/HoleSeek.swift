/// lseek(2) with SEEK_DATA or SEEK_HOLE. Where holes are is the disk's to decide, but what is
/// passed over as a hole must read as zeros, and the end is a hole.
package struct HoleSeek {
  private let offset: UInt64
  private let isHole: Bool

  package init(offset: UInt64, isHole: Bool) {
    self.offset = offset
    self.isHole = isHole
  }

  /// What is wrong with an answer for a file of these bytes.
  package func check(_ outcome: Outcome, of content: [UInt8]) -> String? {
    // ENXIO
    guard offset < content.count else {
      return outcome == .failed(6) ? nil : "gave \(outcome) at or after the end"
    }
    let start = Int(offset)
    switch outcome {
    case .failed(6) where !isHole:
      return content[start...].allSatisfy { $0 == 0 } ? nil : "passes data over"
    case .number(let found) where found >= Int64(offset) && found <= Int64(content.count):
      let found = Int(found)
      if isHole {
        // A byte that is not 0 is in no hole.
        return found == content.count || content[found] == 0 ? nil : "takes data for a hole"
      }
      return content[start..<found].allSatisfy { $0 == 0 } ? nil : "passes data over"
    default:
      return "gave \(outcome) of \(content.count) bytes"
    }
  }
}

extension Operation {
  /// The slot and the seek, of such an operation.
  package var holeSeek: (slot: Int, seek: HoleSeek)? {
    switch self {
    case .seekData(let slot, let offset): (slot, HoleSeek(offset: offset, isHole: false))
    case .seekHole(let slot, let offset): (slot, HoleSeek(offset: offset, isHole: true))
    default: nil
    }
  }
}
