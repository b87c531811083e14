package import Catalog
package import Coordination

extension ContainerSync: TransferReporting {
  package nonisolated func transfer(of number: InodeNumber) -> TransferState {
    var state = TransferState(
      isDownloading: fetcher.isActive(number), downloadingError: fetcher.error(of: number))
    state.stoppedBy = transfers.stoppedBy
    state.storeProblem = storeProblem
    if let upload = transfers.upload(number) {
      state.isUploading = upload.isActive
      state.uploadingError = upload.error
      state.percentUploaded =
        upload.size == 0
        ? 0 : Int(UInt128(min(upload.done, upload.size)) * 100 / UInt128(upload.size))
    }
    state.uploadingError = state.uploadingError ?? transfers.quotaError(number)
    // A closed file needs no copy.
    if state.uploadingError == nil, let error = transfers.diskError(number),
      coordinator.isOpenForWriting(number)
    {
      state.uploadingError = error
    }
    return state
  }
}
