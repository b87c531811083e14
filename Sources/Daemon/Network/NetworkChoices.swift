internal import ControlProtocol
internal import FoundationEssentials
internal import Platform
internal import SystemPackage

/// `network.json`: what was said of the network on the command line.
extension StateDirectory {
  private var networkFile: String { path + "/network.json" }

  /// A file that cannot be read says nothing: limits are no reason not to start.
  var networkChoices: NetworkWeather.StoredChoices {
    guard let bytes = try? Files.read(networkFile),
      let choices = try? BoundedJSON.decode(
        NetworkWeather.StoredChoices.self, from: bytes)
    else { return NetworkWeather.StoredChoices() }
    return choices
  }

  func setNetworkChoices(_ choices: NetworkWeather.StoredChoices) throws(ControlError) {
    do {
      let encoder = JSONEncoder()
      encoder.outputFormatting = [.sortedKeys]
      try Files.replace(networkFile, with: Array(encoder.encode(choices)))
    } catch {
      throw ControlError(.failed, "cannot write \"\(networkFile)\": \(error)")
    }
  }
}
