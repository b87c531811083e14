import ControlProtocol
import Testing

/// What goes over the control socket, and what must not get through.
@Suite struct MessageTests {
  private func line(_ text: String) -> [UInt8] { Array(text.utf8) }

  private func code(of text: String) -> Int? {
    do throws(Message.HeadError) {
      _ = try Message.head(line(text))
      return nil
    } catch {
      return error.object.code
    }
  }

  @Test func requestsAreReadAsTheyWereWritten() throws {
    let sent = MountRequest(
      container: "iCloud.com.example.notes", mountpoint: PathBytes("/mnt/ä\n"), options: ["ro"])
    let bytes = try Message.request(id: .number(7), method: Methods.Mount.name, sent)
    #expect(bytes.last == 0x0A)
    #expect(bytes.dropLast().allSatisfy { $0 != 0x0A })
    let head = try Message.head(bytes)
    #expect(head.id == .number(7))
    #expect(head.method == "mount")
    let read = try Message.parameters(MountRequest.self, in: bytes)
    #expect(read.mountpoint == sent.mountpoint)
    #expect(read.options == ["ro"])
  }

  @Test func repliesAndNotificationsAreToldApart() throws {
    let answer = try Message.reply(id: .text("x"), SecretAnswer(secret: "s"))
    guard case .result(let read) = try Message.received(SecretAnswer.self, in: answer) else {
      Issue.record("no result")
      return
    }
    #expect(read.secret == "s")

    let error = ControlError(.busy, "it is in use")
    let failure = try Message.failure(id: .number(1), ErrorObject(error))
    guard case .failure(let object) = try Message.received(Nothing.self, in: failure) else {
      Issue.record("no failure")
      return
    }
    #expect(object.controlError == error)
    #expect(object.data?.exitCode == 5)

    let progress = Progress(done: 1, total: 2, unit: "bytes")
    let news = try Message.notification(method: Notifications.progress, progress)
    guard case .notification(let name) = try Message.received(Nothing.self, in: news) else {
      Issue.record("no notification")
      return
    }
    #expect(name == "progress")
    #expect(try Message.parameters(Progress.self, in: news) == progress)
    #expect(try Message.head(news).id == nil)
  }

  @Test func missingParametersAreNone() throws {
    let text = line(#"{"jsonrpc":"2.0","id":1,"method":"sync"}"#)
    #expect(throws: (any Error).self) { try Message.parameters(SyncRequest.self, in: text) }
    _ = try Message.parameters(Nothing.self, in: text)
    _ = try Message.parameters(
      Nothing.self, in: line(#"{"jsonrpc":"2.0","id":1,"method":"x","params":null}"#))
  }

  @Test func whatIsNoJSONIsAParseError() {
    for text in ["garbage", "", "{", #"{"jsonrpc":"2.0""#, String(repeating: "[", count: 100_000)] {
      #expect(code(of: text) == ErrorCode.parseError, "\(text.prefix(20))")
    }
    do throws(Message.HeadError) {
      _ = try Message.head([0xFF, 0xFE, 0x00])
      Issue.record("bytes that are no UTF-8 were read")
    } catch {
      #expect(error.object.code == ErrorCode.parseError)
    }
  }

  @Test func whatIsNoRequestIsAnInvalidRequest() {
    for text in [
      "{}", "[]", "null", "5", "[1,2]", #"{"jsonrpc":"1.0","id":1,"method":"x"}"#,
      #"{"jsonrpc":"2.0","id":1}"#, #"{"jsonrpc":"2.0","id":{},"method":"x"}"#,
      #"{"jsonrpc":"2.0","id":1,"method":5}"#,
    ] {
      #expect(code(of: text) == ErrorCode.invalidRequest, "\(text)")
    }
  }

  @Test func pathsThatAreNoUTF8ComeThrough() throws {
    let path = PathBytes([0x2F, 0xFF, 0x61])
    let item = ItemReference(mountpoint: PathBytes("/m"), path: path, shown: path)
    let bytes = try Message.request(
      id: .null, method: Methods.Evict.name, ItemsRequest(items: [item]))
    #expect(try Message.parameters(ItemsRequest.self, in: bytes).items == [item])
    #expect(throws: (any Error).self) {
      try Message.parameters(
        MountpointRequest.self, in: line(#"{"params":{"mountpoint":{"hex":"zz"}}}"#))
    }
  }

  @Test func theStatusHasTheMembersOfTheContract() throws {
    let report = StatusReport(
      daemon: DaemonReport(pid: 1, version: "1"), account: AccountReport(signedIn: false),
      offline: true,
      mounts: [
        MountReport(
          container: "c", mountpoint: "/m", io: IOReport(mode: .daemon, reason: "no"))
      ],
      containers: [
        ContainerReport(
          id: "c", items: 1, localBytes: 2, totalBytes: 3, pendingUploads: 4, pendingDownloads: 5,
          conflicts: 6, errors: [])
      ],
      traffic: TrafficReport(
        bytesUploaded: 1, bytesDownloaded: 2,
        requests: TrafficReport.Requests(get: 1, put: 2, list: 3, delete: 4)),
      network: NetworkReport(
        reachable: false, since: "then", reason: "why",
        limits: LimitsReport(uploadLimit: 1, downloadLimit: 2),
        metered: MeteredReport(mode: "auto", isMetered: false, reason: nil), parallelDownloads: 4,
        parallelUploads: 4))
    let text = String(decoding: try Message.reply(id: .null, report), as: UTF8.self)
    for key in [
      "daemon", "pid", "version", "account", "signedIn", "offline", "mounts", "container",
      "mountpoint", "passthrough", "passthroughReason", "io", "mode", "reason", "containers", "id",
      "items", "localBytes",
      "totalBytes", "pendingUploads", "pendingDownloads", "conflicts", "errors", "traffic",
      "bytesUploaded", "bytesDownloaded", "requests", "get", "put", "list", "delete",
      "retries", "network", "reachable", "since", "metered", "isMetered", "limits", "uploadLimit",
    ] {
      #expect(text.contains("\"\(key)\":"), "\(key)")
    }
  }
}
