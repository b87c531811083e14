import RemoteStore

/// Files of other programs that lie in the cloud among the objects of an account: conflict copies
/// of a file synchroniser, temporary files, and whatever else.
extension World {
  /// Puts some, now and then. Their random numbers are their own.
  func litter() {
    guard hasForeignObjects, litterRandom.chance(10) else { return }
    let account = accounts[litterRandom.number(0...accounts.count - 1)]
    let container = "containers/\(account.container.incarnation)/"
    let places = [
      "names/", "devices/", "account/", "deleted/", "containers/", container, container + "log/",
      container + "log/", container + "packs/", container + "snapshots/", container + "devices/",
    ]
    let place = account.prefix + places[litterRandom.number(0...places.count - 1)]
    // Sometimes more than a page of a list.
    let count = litterRandom.chance(10) ? 200 : litterRandom.number(1...3)
    for _ in 0..<count { cloud.store(place + foreignName(), [1, 2, 3]) }
    self.count("foreign objects")
    scheduler.note("\(count) foreign objects in \(place)")
  }

  private func foreignName() -> String {
    let number = litterRandom.number(0...40)
    let digits = String(repeating: "0", count: number < 10 ? 19 : 18) + "\(number)"
    return switch litterRandom.number(0...5) {
    case 0: "\(digits).sync-conflict-\(litterRandom.number(0...999_999))"
    case 1: "\(digits).tmp"
    case 2: "0z\(litterRandom.number(0...99))"
    case 3: "\(digits)/index.tmp"
    case 4: String(repeating: "F", count: 31) + "\(litterRandom.number(0...9))"
    default: "desktop.ini\(litterRandom.number(0...9))"
    }
  }
}
