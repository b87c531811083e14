internal import Platform
internal import SystemPackage

/// Whether the network that is the way out costs money, as far as files tell: no program is asked.
///
/// In this order, of the device of the default route:
/// - what NetworkManager was told of the connection (`connection.metered`), where its files can be
///   read, which is root's alone,
/// - `ANDROID_METERED`, which a telephone says with its addresses, where systemd-networkd keeps
///   them,
/// - the kind of the device: mobile broadband, Bluetooth, a telephone on USB.
///
/// Of any other network it is taken that it costs nothing.
package struct MeteredNetwork: Sendable {
  private let root: String

  /// `root` is for tests.
  package init(root: String = "") { self.root = root }

  /// Why the network costs money; nil: it does not, as far as is known.
  package func reason() -> String? {
    guard let device = defaultDevice() else { return nil }
    let place = "\(root)/sys/class/net/\(device)"
    let index = text("\(place)/ifindex") ?? ""
    if let choice = chosen(index) {
      return choice ? "\(device): marked as metered in NetworkManager" : nil
    }
    if isAndroid(index) { return "\(device): reported as metered by the phone" }
    if let kind = kind(place) { return "\(device): \(kind)" }
    return nil
  }

  /// Of the default route with the least metric, of IPv4 or else of IPv6.
  package func defaultDevice() -> String? {
    var best: (metric: Int, device: String)?
    for line in lines("/proc/net/route").dropFirst() {
      let fields = line.split(whereSeparator: { $0 == "\t" || $0 == " " })
      guard fields.count > 7, fields[1] == "00000000", fields[7] == "00000000",
        let flags = Int(fields[3], radix: 16), flags & 1 != 0, let metric = Int(fields[6])
      else { continue }
      if best.map({ metric < $0.metric }) ?? true { best = (metric, String(fields[0])) }
    }
    if let best { return best.device }
    for line in lines("/proc/net/ipv6_route") {
      let fields = line.split(separator: " ")
      guard fields.count > 9, fields[0].allSatisfy({ $0 == "0" }), fields[1] == "00",
        fields[9] != "lo", let flags = Int(fields[8], radix: 16), flags & 1 != 0,
        flags & 0x200 == 0, let metric = Int(fields[5], radix: 16)
      else { continue }
      if best.map({ metric < $0.metric }) ?? true { best = (metric, String(fields[9])) }
    }
    return best?.device
  }

  /// By the user, of NetworkManager's connection on the device.
  private func chosen(_ index: String) -> Bool? {
    let state = lines("/run/NetworkManager/devices/\(index)")
    guard !index.isEmpty,
      let identifier = state.first(where: { $0.hasPrefix("connection-uuid=") })?
        .dropFirst("connection-uuid=".count)
    else { return nil }
    for directory in [
      "/etc/NetworkManager/system-connections", "/run/NetworkManager/system-connections",
    ] {
      for name in (try? Files.names(in: root + directory)) ?? [] {
        let connection = lines("\(directory)/\(name)")
        guard connection.contains("uuid=\(identifier)") else { continue }
        // NMMetered: 1 is yes, 2 no; 0, 3 and 4 are guesses.
        if connection.contains("metered=1") { return true }
        if connection.contains("metered=2") { return false }
        return nil
      }
    }
    return nil
  }

  /// DHCP option 43.
  private func isAndroid(_ index: String) -> Bool {
    guard !index.isEmpty else { return false }
    let hex = lines("/run/systemd/netif/leases/\(index)")
      .first { $0.hasPrefix("VENDOR_SPECIFIC=") }?.dropFirst("VENDOR_SPECIFIC=".count)
    guard let hex else { return false }
    let sign = "ANDROID_METERED".utf8.map { byte in
      let text = String(byte, radix: 16)
      return text.count == 1 ? "0" + text : text
    }
    return hex.lowercased().contains(sign.joined())
  }

  private func kind(_ place: String) -> String? {
    let event = (text("\(place)/uevent") ?? "").split(separator: "\n")
    if event.contains("DEVTYPE=wwan") { return "mobile broadband" }
    if event.contains("DEVTYPE=bluetooth") { return "Bluetooth" }
    switch Files.linkTarget("\(place)/device/driver")?.split(separator: "/").last {
    case "cdc_mbim", "qmi_wwan": return "mobile broadband"
    case "ipheth", "rndis_host": return "a phone on USB"
    default: return nil
    }
  }

  private func lines(_ path: String) -> [Substring] {
    (text(root + path) ?? "").split(separator: "\n")
  }

  private func text(_ path: String) -> String? { Files.smallText(path, limit: 65_536) }
}
