/// What an account may take in its backend: the sum over its containers of `ContainerUsage.bytes`.
package struct AccountQuota: Hashable, Sendable {
  /// Nil: there is no limit.
  package var limit: UInt64?
  /// When it was set, by the clock of the device that did it.
  package var time: Timestamp
  package var device: DeviceID

  package init(limit: UInt64?, time: Timestamp, device: DeviceID) {
    self.limit = limit
    self.time = time
    self.device = device
  }
}

/// What a container takes of its account's allotment.
package struct ContainerUsage: Hashable, Sendable {
  package var incarnation: IncarnationID
  /// Up to this segment of its log. Of two figures the one with the later segment is right.
  package var sequence: UInt64
  package var bytes: UInt64

  package init(incarnation: IncarnationID, sequence: UInt64, bytes: UInt64) {
    self.incarnation = incarnation
    self.sequence = sequence
    self.bytes = bytes
  }
}

extension ItemRecord {
  /// What the item takes of the account's allotment: the sizes of its current content and of its
  /// conflict versions as a program sees them, whatever the backend stores of them. A content that
  /// is announced counts, so that there is room for it when it comes.
  package var allottedBytes: UInt64 {
    conflicts.reduce(content?.size ?? 0) { sum, version in
      let (result, overflow) = sum.addingReportingOverflow(version.size)
      return overflow ? .max : result
    }
  }
}
