import Platform

@testable import ControlProtocol
@testable import Daemon

/// Decoders of the control socket's two ends, and of files in the state directory.
extension FuzzTarget {
  static let controlTargets: [FuzzTarget] = [
    // The first byte chooses the pieces that the stream is cut into. The stream follows.
    FuzzTarget(
      "control-stream", limit: 8192,
      seeds: {
        let lines = try [
          Message.request(
            id: .number(1), method: Methods.Hello.name,
            Greeting(protocolVersion: 1, version: "0.1.0", pid: 7)),
          Message.request(id: .text("a"), method: Methods.Status.name, Nothing()),
          Message.notification(method: "event", Nothing()),
          Message.reply(id: .null, Nothing()),
          Message.failure(id: .number(7), ErrorObject(ControlError(.busy, "it is busy"))),
        ]
        return [[3] + lines.flatMap(\.self)] + lines.map { [0] + $0 }
      },
      run: { bytes in
        var input = InputReader(bytes)
        let piece = Int(input.byte()) + 1
        var buffer = LineBuffer(limit: 2048)
        var lines: [[UInt8]] = []
        let stream = input.all()
        do {
          for start in stride(from: 0, to: stream.count, by: piece) {
            buffer.append(stream[start..<min(start + piece, stream.count)])
            while let line = try buffer.next() { lines.append(line) }
          }
          let whole = stream.split(separator: 0x0A, omittingEmptySubsequences: false).dropLast()
          try expect(lines == whole.map(Array.init), "a stream is cut into other lines")
        } catch is LineBuffer.Overflow {}
        for line in lines { read(line) }
      }),
    FuzzTarget(
      "control-parameters",
      seeds: {
        try everyMethod.indices.map { index in
          [UInt8(index)]
            + (try Message.request(id: .number(1), method: everyMethod[index].name, Nothing()))
        } + parameterTexts.map { [0] + [UInt8]($0) }
      },
      run: { bytes in
        var input = InputReader(bytes)
        let method = everyMethod[Int(input.byte()) % everyMethod.count]
        let line = input.all()
        read(line)
        try check(method, line)
      }),
    // Every file of the state directory that is JSON.
    FuzzTarget(
      "state-files",
      seeds: {
        [
          #"{"backend":"file:///x","secret":"s","format":"00ff","environment":{"A":"b"}}"#,
          "{\"identifier\":\"00000000000000000000000000000001\",\"name\":\"Ada\"}",
          "{\"upload\":\"2MB/s\",\"download\":\"off\",\"metered\":\"yes\"}",
          "{\"container\":\"c\",\"result\":\"downloaded\",\"bytes\":1}",
        ].map { [UInt8]($0) }
      },
      run: { bytes in
        if let account = try? BoundedJSON.decode(StoredAccount.self, from: bytes) {
          _ = account.formerIdentifier
          var changed = account
          if let variables = try? BackendAddress("s3://bucket").variables {
            _ = changed.take(["AWS_PROFILE": "x", "https_proxy": "y"], variables)
          }
        }
        _ = (try? BoundedJSON.decode(StoredDevice.self, from: bytes))?.id
        _ = try? BoundedJSON.decode(NetworkWeather.StoredChoices.self, from: bytes)
        _ = try? BoundedJSON.decode(DownloadReport.self, from: bytes)
        _ = try? BoundedJSON.decode(ItemReference.self, from: bytes)
      }),
  ]

  private static func read(_ line: [UInt8]) {
    _ = try? Message.head(line)
    _ = try? Message.arrival(line)
  }

  private static func check<Method: ControlMethod>(_: Method.Type, _ line: [UInt8]) throws {
    // Decoding drops members of newer clients. So the second and third encodings are compared.
    if let parameters = try? Message.parameters(Method.Parameters.self, in: line) {
      let encoded = try Message.request(id: .null, method: Method.name, parameters)
      let again: Method.Parameters
      do { again = try Message.parameters(Method.Parameters.self, in: encoded) } catch {
        throw BrokenProperty("parameters of \(Method.name) cannot be decoded again: \(error)")
      }
      try expect(
        Message.request(id: .null, method: Method.name, again) == encoded,
        "parameters of \(Method.name) are others when they are read again")
    }
    _ = try? Message.received(Method.Answer.self, in: line)
  }

  // Unsafe: a type of a method has no state.
  nonisolated(unsafe) private static let everyMethod: [any ControlMethod.Type] = [
    Methods.RegisterRun.self, Methods.WriteDownloads.self, Methods.Hello.self,
    Methods.SignIn.self, Methods.SignOut.self, Methods.AccountStatus.self,
    Methods.AccountIdentity.self, Methods.Devices.self, Methods.Secret.self,
    Methods.CreateContainer.self, Methods.ListContainers.self, Methods.DeleteContainer.self,
    Methods.Mount.self, Methods.HoldMounts.self, Methods.Unmount.self, Methods.Status.self,
    Methods.ItemStatus.self, Methods.Evict.self, Methods.Download.self, Methods.Pin.self,
    Methods.Policy.self, Methods.Sync.self, Methods.SetOffline.self, Methods.SetLimits.self,
    Methods.SetMetered.self, Methods.ListVersions.self, Methods.ReadVersion.self,
    Methods.ResolveVersions.self, Methods.RemoveVersions.self, Methods.MarkVersions.self,
    Methods.ListRemoved.self, Methods.RestoreRemoved.self, Methods.ForgetRemoved.self,
    Methods.Quota.self, Methods.ListStorage.self, Methods.ShowStorage.self,
    Methods.DeleteStorage.self, Methods.Claim.self, Methods.ReleaseClaim.self,
    Methods.CancelClaim.self, Methods.AddPresenter.self, Methods.RemovePresenter.self,
    Methods.AnswerPresenter.self, Methods.SubscribeEvents.self, Methods.Check.self,
    Methods.Diagnose.self, Methods.StartQuery.self, Methods.StopQuery.self,
    Methods.RecoverStore.self, Methods.ListSetAside.self, Methods.RestoreSetAside.self,
    Methods.RemoveSetAside.self, Methods.AddSetAside.self, Methods.VerifyStore.self,
  ]

  private static let parameterTexts = [
    #"{"jsonrpc":"2.0","id":1,"method":"x","params":{"id":"iCloud.com.example.notes"}}"#,
    #"{"params":{"items":[{"mountpoint":"/m","path":{"hex":"ff"}}],"recursive":true}}"#,
    #"{"params":{"protocolVersion":1,"version":"0.1.0"},"result":{"query":1},"error":null}"#,
    #"{"params":"# + String(repeating: "[", count: 513) + "}",
    #"{"id":-9223372036854775808,"result":{"bytes":18446744073709551615,"share":1e308}}"#,
  ]
}
