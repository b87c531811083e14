/// What presenters are asked before a claim is given.
///
/// Source: Apple's documentation of `NSFilePresenter` and of the options of `NSFileCoordinator`.
extension ClaimQueue {
  func requests(
    for access: ClaimAccess
  ) -> [(presenter: PresenterID, request: PresenterRequest, path: ClaimPath)] {
    var result: [(presenter: PresenterID, request: PresenterRequest, path: ClaimPath)] = []
    let around = presenters(around: access.path)
    func ask(_ request: PresenterRequest, _ list: [PresenterID]) {
      for presenter in list { result.append((presenter, request, access.path)) }
    }
    let covered = around.here + around.below
    switch access.mode {
    case .reading(let options):
      guard !options.contains(.immediatelyAvailableMetadataOnly) else { break }
      ask(.relinquishToReader, covered)
      if !options.contains(.withoutChanges) { ask(.saveChanges, covered) }
    case .writing(let options):
      guard !options.contains(.contentIndependentMetadataOnly) else { break }
      ask(.relinquishToWriter, covered)
      if options.contains(.forMerging) { ask(.saveChanges, covered) }
      if options.endsItem {
        ask(.accommodateDeletion, covered)
        ask(.accommodateSubitemDeletion, around.above)
      }
      if options.contains(.forEvicting) { ask(.accommodateEviction, covered) }
    }
    return result
  }
}
