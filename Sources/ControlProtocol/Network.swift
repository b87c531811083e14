/// Nil leaves a way as it is; without either it asks what the limits are.
package struct LimitRequest: Codable, Sendable {
  /// A rate such as `2MB/s`, or `off`.
  package var up: String?
  package var down: String?

  package init(up: String?, down: String?) {
    self.up = up
    self.down = down
  }
}

/// Bytes in a second; nil: no limit.
package struct LimitsReport: Codable, Sendable {
  package var uploadLimit: UInt64?
  package var downloadLimit: UInt64?

  package init(uploadLimit: UInt64?, downloadLimit: UInt64?) {
    self.uploadLimit = uploadLimit
    self.downloadLimit = downloadLimit
  }

  package var described: String {
    func text(_ limit: UInt64?) -> String { limit.map { "\($0) bytes/s" } ?? "no limit" }
    return "upload \(text(uploadLimit)), download \(text(downloadLimit))"
  }
}

package struct MeteredRequest: Codable, Sendable {
  /// `on`, `off` or `auto`; nil asks how it is.
  package var mode: String?

  package init(mode: String?) { self.mode = mode }
}

/// Whether bytes cost money.
package struct MeteredReport: Codable, Sendable {
  /// `yes`, `no` or `auto`.
  package var mode: String
  package var isMetered: Bool
  /// Why, where they do.
  package var reason: String?

  package init(mode: String, isMetered: Bool, reason: String?) {
    self.mode = mode
    self.isMetered = isMetered
    self.reason = reason
  }
}

package struct NetworkReport: Codable, Sendable {
  /// Whether the backend answers, as far as is known.
  package var reachable: Bool
  /// RFC 3339: since when it does not.
  package var since: String?
  package var reason: String?
  package var limits: LimitsReport
  package var metered: MeteredReport
  /// How many transfers of content may run at the same time now.
  package var parallelDownloads: Int?
  package var parallelUploads: Int?

  package init(
    reachable: Bool, since: String?, reason: String?, limits: LimitsReport,
    metered: MeteredReport, parallelDownloads: Int?, parallelUploads: Int?
  ) {
    self.reachable = reachable
    self.since = since
    self.reason = reason
    self.limits = limits
    self.metered = metered
    self.parallelDownloads = parallelDownloads
    self.parallelUploads = parallelUploads
  }
}
