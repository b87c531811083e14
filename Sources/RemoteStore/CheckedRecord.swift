internal import Model
internal import RecordFormat

/// A record that is about to be put.
///
/// **Invariant: this device puts no record that other devices refuse.** One invalid record can stop
/// the sync of every device. So each record is decoded again before it is sealed.
protocol CheckedRecord {
  func encoded() -> [UInt8]
  init(decoding bytes: [UInt8]) throws(RecordError)
}

extension CheckedRecord {
  /// Throws `.malformed`.
  func checked() throws(RemoteError) -> [UInt8] {
    let bytes = encoded()
    do throws(RecordError) { _ = try Self(decoding: bytes) } catch {
      throw .malformed("\(Self.self): \(error)")
    }
    return bytes
  }
}

extension ContainerInfo: CheckedRecord {}
extension DeviceRecord: CheckedRecord {}
extension AccountQuota: CheckedRecord {}
extension DeviceCursor: CheckedRecord {}
extension SnapshotIndex: CheckedRecord {}
extension SnapshotPart: CheckedRecord {}
