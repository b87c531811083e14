import ControlProtocol
import Daemon
import Glibc
import Platform
import SystemPackage
import TestWaiting
import Testing

@Suite struct NetworkTests {
  @Test(
    arguments: [
      ("2MB/s", 2_000_000), ("500KB/s", 500_000), ("1.5MiB/s", 1_572_864), ("64k", 65_536),
      ("3 m", 3_145_728), ("1000", 1000), ("1GB", 1_000_000_000),
    ] as [(String, UInt64)])
  func ratesAreRead(_ text: String, _ bytes: UInt64) {
    #expect(ByteRate(text)?.bytes == bytes)
    #expect(RateChoice(text) == .limit(ByteRate(bytes: bytes)))
  }

  @Test(arguments: ["", "fast", "-1MB", "1", "999B/s", "1XB", "MB", "1e3", "1MB/h", "9999999GB"])
  func whatIsNoRateIsRefused(_ text: String) {
    #expect(ByteRate(text) == nil)
    #expect(RateChoice(text) == nil)
  }

  @Test("off is no limit") func offIsNoLimit() { #expect(RateChoice("off") == .off) }

  private func weather(_ scratch: Scratch, _ text: String = "") throws -> NetworkWeather {
    let configuration = try Configuration.parse(text, path: "config.yaml", home: nil)
    return NetworkWeather(
      try StateDirectory.prepare(scratch.path + "/state"), configuration.network,
      network: MeteredNetwork(root: scratch.path + "/root"))
  }

  @Test func whatIsSaidWinsOverTheConfigurationAndIsKept() throws {
    let scratch = try Scratch()
    let text = "network: {uploadLimit: 2MB/s, downloadLimit: 10MB/s, metered: yes}"
    var weather = try weather(scratch, text)
    #expect(weather.limits.up.rate == 2_000_000)
    #expect(weather.limits.down.rate == 10_000_000)
    #expect(weather.mode == .yes && weather.isMetered)
    try weather.setLimits(up: "off", down: nil)
    try weather.setMetered(.no)
    #expect(weather.limits.up.rate == nil)
    #expect(weather.limits.down.rate == 10_000_000)
    #expect(!weather.isMetered)
    weather = try self.weather(scratch, text)
    #expect(weather.limits.up.rate == nil)
    #expect(weather.limits.down.rate == 10_000_000)
    #expect(weather.mode == .no)
    do throws(ControlError) {
      try weather.setLimits(up: "1MB/s", down: "fast")
      Issue.record("it was taken")
    } catch {
      #expect(error.status == .usage && error.message.contains("fast"))
    }
    #expect(weather.limits.up.rate == nil)
  }

  /// A root with a default route over `device`.
  private func root(
    _ scratch: Scratch, _ device: String, uevent: String = "", driver: String? = nil
  ) throws {
    let root = scratch.path + "/root"
    try Files.makeDirectories(root + "/proc/net")
    try Files.replace(
      root + "/proc/net/route",
      with: Array(
        """
        Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
        other\t00000000\t010200C0\t0003\t0\t0\t600\t00000000\t0\t0\t0
        \(device)\t00000000\t010200C0\t0003\t0\t0\t100\t00000000\t0\t0\t0
        third\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0

        """.utf8))
    let place = root + "/sys/class/net/\(device)"
    try Files.makeDirectories(place + "/device")
    try Files.replace(place + "/uevent", with: Array(uevent.utf8))
    try Files.replace(place + "/ifindex", with: Array("7\n".utf8))
    if let driver { symlink("../../../../bus/usb/drivers/\(driver)", place + "/device/driver") }
  }

  @Test func theDefaultRouteIsLookedAt() throws {
    let scratch = try Scratch()
    let network = MeteredNetwork(root: scratch.path + "/root")
    #expect(network.defaultDevice() == nil && network.reason() == nil)
    try root(scratch, "eth0", uevent: "INTERFACE=eth0\nIFINDEX=7\n")
    #expect(network.defaultDevice() == "eth0" && network.reason() == nil)
    try Files.remove(scratch.path + "/root/proc/net/route")
    let zero = String(repeating: "0", count: 32)
    try Files.replace(
      scratch.path + "/root/proc/net/ipv6_route",
      with: Array(
        """
        \(zero) 00 \(zero) 00 \(zero) ffffffff 00000001 00000000 00200200       lo
        \(zero) 00 \(zero) 00 fd000000000000000000000000000001 00000400 00000002 00000000 00000003     six0

        """.utf8))
    #expect(network.defaultDevice() == "six0")
  }

  @Test(
    arguments: [
      ("wwan0", "DEVTYPE=wwan\nINTERFACE=wwan0\n", nil, "mobile"),
      ("bnep0", "DEVTYPE=bluetooth\n", nil, "Bluetooth"), ("usb0", "", "rndis_host", "phone"),
      ("eth1", "", "ipheth", "phone"), ("wwp0", "", "cdc_mbim", "mobile"),
    ] as [(String, String, String?, String)])
  func kindsOfDevicesCostMoney(
    _ device: String, _ uevent: String, _ driver: String?, _ said: String
  ) throws {
    let scratch = try Scratch()
    try root(scratch, device, uevent: uevent, driver: driver)
    let reason = try #require(MeteredNetwork(root: scratch.path + "/root").reason())
    #expect(reason.contains(device) && reason.contains(said))
    let weather = try weather(scratch)
    #expect(weather.mode == .auto && weather.isMetered)
    try weather.setMetered(.no)
    #expect(!weather.isMetered)
  }

  @Test func whatTheUserToldNetworkManagerCounts() throws {
    let scratch = try Scratch()
    let root = scratch.path + "/root"
    try self.root(scratch, "wwan0", uevent: "DEVTYPE=wwan\n")
    try Files.makeDirectories(root + "/run/NetworkManager/devices")
    try Files.makeDirectories(root + "/etc/NetworkManager/system-connections")
    try Files.replace(
      root + "/run/NetworkManager/devices/7",
      with: Array("[device]\nmanaged=true\nconnection-uuid=abc-def\n".utf8))
    let file = root + "/etc/NetworkManager/system-connections/x.nmconnection"
    func say(_ metered: Int) throws {
      try Files.replace(
        file, with: Array("[connection]\nid=x\nuuid=abc-def\nmetered=\(metered)\n".utf8))
    }
    let network = MeteredNetwork(root: root)
    try say(2)
    #expect(network.reason() == nil)
    try say(1)
    #expect(network.reason()?.contains("NetworkManager") == true)
    try say(0)
    #expect(network.reason()?.contains("mobile") == true)
  }

  @Test func aTelephoneSaysSo() throws {
    let scratch = try Scratch()
    try root(scratch, "wlan0")
    let leases = scratch.path + "/root/run/systemd/netif/leases"
    try Files.makeDirectories(leases)
    let sign = "ANDROID_METERED".utf8.map { String($0, radix: 16) }.joined()
    try Files.replace(
      leases + "/7", with: Array("ADDRESS=1.2.3.4\nVENDOR_SPECIFIC=\(sign)\n".utf8))
    #expect(MeteredNetwork(root: scratch.path + "/root").reason()?.contains("phone") == true)
  }

  @Test("asking whether the network is metered does not wait for files")
  func askingReadsNoFile() async throws {
    let scratch = try Scratch()
    try root(scratch, "eth0", uevent: "INTERFACE=eth0\n")
    let configuration = try Configuration.parse("", path: "config.yaml", home: nil)
    let weather = NetworkWeather(
      try StateDirectory.prepare(scratch.path + "/state"), configuration.network,
      network: MeteredNetwork(root: scratch.path + "/root"), lookLasts: 0)
    let told = Lock<[Bool]>([])
    weather.start(
      networkChanged: { _ in }, metered: { value in told.withLock { $0.append(value) } })
    defer { weather.stop() }
    // A file that nobody answers: whoever reads it waits until somebody opens it for writing.
    let route = scratch.path + "/root/proc/net/route"
    try Files.remove(route)
    #expect(mkfifo(route, 0o600) == 0)
    let isAnswered = Lock(false)
    _ = startThread {
      for _ in 0..<1000 { _ = weather.isMetered }
      isAnswered.withLock { $0 = true }
    }
    try await eventually("all questions are answered") { isAnswered.withLock { $0 } }
    // Who waits on the old file goes on when its only writer is gone, and a later look finds the
    // new one.
    let writer = open(route, O_RDWR | O_NONBLOCK)
    try Files.remove(route)
    try root(scratch, "wwan0", uevent: "DEVTYPE=wwan\n")
    close(writer)
    try await eventually("the network counts as metered") { weather.isMetered }
    #expect(told.withLock { $0 } == [true])
  }

  @Test func changesOfMoneyAreToldOnce() throws {
    let scratch = try Scratch()
    let weather = try weather(scratch)
    let told = Lock<[Bool]>([])
    weather.start(
      networkChanged: { _ in }, metered: { value in told.withLock { $0.append(value) } })
    try weather.setMetered(.yes)
    try weather.setMetered(.yes)
    #expect(weather.isMetered)
    try weather.setMetered(.no)
    #expect(!weather.isMetered)
    #expect(told.withLock { $0 } == [true, false])
    weather.stop()
  }

  // MARK: The kernel

  private func message(_ type: UInt16, _ body: [UInt8]) -> [UInt8] {
    var bytes: [UInt8] = []
    withUnsafeBytes(of: UInt32(16 + body.count)) { bytes += $0 }
    withUnsafeBytes(of: type) { bytes += $0 }
    bytes += [UInt8](repeating: 0, count: 10) + body
    while bytes.count % 4 != 0 { bytes.append(0) }
    return bytes
  }

  private func change(_ bytes: [UInt8]) -> NetworkChanges.Change? {
    bytes.withUnsafeBytes { NetworkChanges.change($0) }
  }

  @Test func messagesOfTheKernelAreUnderstood() {
    let running = message(16, [0, 0, 0, 0, 1, 0, 0, 0, 0x43, 0, 0, 0, 0, 0, 0, 0])
    let noCarrier = message(16, [0, 0, 0, 0, 1, 0, 0, 0, 0x03, 0, 0, 0, 0, 0, 0, 0])
    let address = message(20, [2, 24, 0, 0, 1, 0, 0, 0])
    let noDefault = message(25, [2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
    let noHost = message(25, [2, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
    #expect(change(running) == .came)
    #expect(change(noCarrier) == .went)
    #expect(change(address) == .came)
    #expect(change(noDefault) == .went)
    #expect(change(noHost) == nil)
    #expect(change(noDefault + address) == .came)
    #expect(change(noHost + noCarrier) == .went)
    // Cut short, or of no length.
    #expect(change(Array(address.dropLast(4))) == nil)
    #expect(change([UInt8](repeating: 0, count: 64)) == nil)
    #expect(change([]) == nil)
  }

  /// In a network namespace of a thread of its own, where nothing else happens.
  @Test(.enabled(if: geteuid() == 0)) func theKernelTellsOfANetworkThatComes() async throws {
    let told = Lock<[NetworkChanges.Change]>([])
    let watcher = Lock<NetworkChanges?>(nil)
    let canSee = await withCheckedContinuation { (done: CheckedContinuation<Bool, Never>) in
      _ = startThread {
        // The Glibc module lacks it, and CLONE_NEWNET.
        typealias Unshare = @convention(c) (Int32) -> Int32
        guard let symbol = dlsym(nil, "unshare"),
          unsafeBitCast(symbol, to: Unshare.self)(0x4000_0000) == 0
        else { return done.resume(returning: false) }
        let changes = NetworkChanges { change in told.withLock { $0.append(change) } }
        watcher.withLock { $0 = changes }
        let socket = socket(AF_INET, Int32(SOCK_DGRAM.rawValue), 0)
        defer { close(socket) }
        var request = ifreq()
        withUnsafeMutableBytes(of: &request) { $0.copyBytes(from: Array("lo\0".utf8)) }
        request.ifr_ifru.ifru_flags = Int16(IFF_UP)
        done.resume(
          returning: changes != nil && ioctl(socket, UInt(SIOCSIFFLAGS), &request) == 0)
      }
    }
    guard canSee else { return }
    defer { watcher.withLock { $0 }?.stop() }
    try await eventually("the kernel tells of a change") { told.withLock { !$0.isEmpty } }
    #expect(told.withLock { $0.first } == .came)
  }
}
