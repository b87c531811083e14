import ControlProtocol
import Foundation
import Model
import Testing

/// The names on the wire. A change here breaks programs that read attributes, JSON or predicates.
@Suite struct StatusTests {
  private let status: ItemSyncStatus = {
    var status = ItemSyncStatus(
      downloadingStatus: .current, isDownloading: false, isUploading: true, isUploaded: false,
      hasUnresolvedConflicts: true, isExcludedFromSync: false, isPinned: true, isPackage: false,
      percentDownloaded: 100, percentUploaded: 50, localBytes: 7, downloadingError: "no",
      uploadingError: "none", version: "v", itemIdentifier: "i", container: "c", policy: "p")
    status.nameCollision = false
    return status
  }()

  @Test("status attributes have the names and values of the contract")
  func attributes() {
    let shown = ItemSyncStatus.attributes.map { "\($0.name)=\($0.value(status)?.text ?? "-")" }
    #expect(
      shown == [
        "downloadingStatus=current", "isDownloading=0", "isUploading=1", "isUploaded=0",
        "hasUnresolvedConflicts=1", "isExcludedFromSync=0", "isPinned=1", "isPackage=0",
        "nameCollision=0", "percentDownloaded=100", "percentUploaded=50", "localBytes=7",
        "downloadingError=no", "uploadingError=none", "version=v", "itemIdentifier=i",
        "container=c", "policy=p",
      ])
  }

  @Test("JSON has the status beside path, kind and size, by the names of the attributes")
  func json() throws {
    let report = ItemReport(
      path: PathBytes(Array("/m/a".utf8)), kind: "file", size: 9, status: status)
    let data = try JSONEncoder().encode(report)
    let object = try #require(JSONSerialization.jsonObject(with: data) as? [String: Any])
    #expect(
      Set(object.keys)
        == Set(ItemSyncStatus.attributes.map(\.name)).union(["path", "kind", "size"]))
    let again = try JSONDecoder().decode(ItemReport.self, from: data)
    #expect(again.status == status && again.size == 9 && again.isUploading)
  }
}
