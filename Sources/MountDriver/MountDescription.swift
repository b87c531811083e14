package import FuseKernel
package import Model
internal import Platform

/// How a mount was made, as its record says it to another daemon: lines of a key and a value.
package struct MountDescription: Hashable, Sendable {
  package var container: ContainerID
  package var mountpoint: String
  package var options: MountOptions
  /// As in the mount table.
  package var device: String
  package var handshake: FuseHandshake

  package init(
    container: ContainerID, mountpoint: String, options: MountOptions, device: String,
    handshake: FuseHandshake
  ) {
    self.container = container
    self.mountpoint = mountpoint
    self.options = options
    self.device = device
    self.handshake = handshake
  }

  /// Nil for what is not understood.
  package init?(_ text: [UInt8]) {
    var values: [Substring: Substring] = [:]
    guard let text = String(validating: text, as: UTF8.self) else { return nil }
    for line in text.split(separator: "\n") {
      let parts = line.split(separator: " ", maxSplits: 1)
      if parts.count == 2 { values[parts[0]] = parts[1] }
    }
    func bytes(_ key: Substring) -> [UInt8]? {
      values[key].flatMap { Hex.decode(Array($0.utf8)) }
    }
    guard let id = values["container"].flatMap({ try? ContainerID(String($0)) }),
      let path = bytes("mountpoint").flatMap({ String(validating: $0, as: UTF8.self) }),
      let options = values["options"].flatMap({ try? MountOptions(parsing: [String($0)]) }),
      let device = values["device"], let request = bytes("request"), let reply = bytes("reply")
    else { return nil }
    self.init(
      container: id, mountpoint: path, options: options, device: String(device),
      handshake: FuseHandshake(request: request, reply: reply))
  }

  package var text: [UInt8] {
    let lines = [
      "container \(container)", "mountpoint \(Hex.encode(Array(mountpoint.utf8)))",
      "options \(options.text)", "device \(device)", "request \(Hex.encode(handshake.request))",
      "reply \(Hex.encode(handshake.reply))",
    ]
    return Array(lines.joined(separator: "\n").utf8)
  }
}
