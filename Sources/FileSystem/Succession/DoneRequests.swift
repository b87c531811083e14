package import Catalog
internal import Platform

/// The requests that changed names and were done last, with the inode that the answer tells of.
///
/// The kernel sends again what a daemon did not answer. A request that is in here, or in what the
/// catalog's journal says, was done and is answered without doing it again. The catalog calls `add`
/// under its lock, so that the journal goes on to have a request until it is here. Only few
/// requests are done and not answered at one time: the last ones are enough.
extension MountRecord {
  private static let capacity: UInt64 = 8192
  private static let entrySize = 16

  package func addDone(_ request: UInt64, _ number: InodeNumber) {
    let count = memory.word(at: Place.answers)
    let place = Place.doneRequests + Int(count % Self.capacity) * Self.entrySize
    // The entry is void while it is written.
    memory.store(0, at: place)
    memory.store(number.rawValue, at: place + 8)
    memory.store(request, at: place)
    memory.store(count &+ 1, at: Place.answers)
  }

  package func doneRequests() -> [UInt64: InodeNumber] {
    var result: [UInt64: InodeNumber] = [:]
    for index in 0..<Int(Self.capacity) {
      let place = Place.doneRequests + index * Self.entrySize
      let request = memory.word(at: place)
      if request != 0 { result[request] = InodeNumber(memory.word(at: place + 8)) }
    }
    return result
  }
}
