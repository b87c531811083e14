internal import Model

extension DownloadPolicy {
  /// As it stands in a row's flags: two bits.
  var bits: Int64 { Int64(Self.allCases.firstIndex(of: self) ?? 0) }

  init(bits: Int64) { self = Self.allCases[Int(bits & 3)] }
}
