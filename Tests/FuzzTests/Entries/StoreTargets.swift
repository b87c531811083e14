import Backend
import Daemon
import HTTPTransport

@testable import BackendS3
@testable import BackendSFTP

/// Answers of a store, addresses of stores, and the files and variables that tell of access keys.
extension FuzzTarget {
  static let storeTargets: [FuzzTarget] = [
    // A status, then an answer's body.
    FuzzTarget(
      "s3-answer", limit: 16_384,
      seeds: {
        let failure =
          "<?xml version=\"1.0\"?><Error><Code>SlowDown</Code><Message>a &#x41;</Message></Error>"
        let list =
          "<ListBucketResult xmlns='x'><IsTruncated>true</IsTruncated><!-- c --><Contents>"
          + "<Key>a&amp;b</Key><Size>3</Size></Contents><Prefix/></ListBucketResult>"
        return [[1, 247] + [UInt8](failure), [0, 200] + [UInt8](list)]
      },
      run: { bytes in
        var input = InputReader(bytes)
        let status = input.word16()
        let body = input.all()
        var headers = HTTPHeaders()
        let line = body.prefix(64).filter { 0x20..<0x7F ~= $0 }
        headers.append("date", line.text)
        headers.append("retry-after", line.text)
        headers.append("x-amz-bucket-region", line.text)
        let answer = S3Answer(status: status, headers: headers, body: body)
        _ = S3Failure(answer, now: 1_700_000_000)?.storeError("key", "place").description
        guard let xml = XMLElements(body) else { return }
        try expect(xml.texts.count <= 20_001, "an answer has \(xml.texts.count) texts")
        for (path, _) in xml.texts {
          try expect(
            path.utf8.count < 16 * 400, "an element is \(path.utf8.count) bytes deep in others")
        }
      }),
    FuzzTarget(
      "backend-address", limit: 1024,
      seeds: {
        [
          "file:///srv/a%20b",
          "s3://bucket/prefix?endpoint=https://s3.example.org:9000&region=eu-1",
          "s3://bucket?style=virtual&ca=%2Fetc%2Fca.pem&endpoint=http://[::1]:80",
          "sftp://me@[::1]:2222/~/a%20b%25",
        ].map { [UInt8]($0) }
      },
      run: { bytes in
        let text = bytes.text
        if let endpoint = S3Endpoint(text) { _ = (endpoint.isExposed, endpoint.origin) }
        guard let address = try? BackendAddress(text) else { return }
        _ = address.warning
        let again = try? BackendAddress(address.description)
        try expect(
          again?.description == address.description,
          "“\(address)” is “\(again?.description ?? "nothing")” when it is read again")
      }),
    FuzzTarget(
      "access-keys",
      seeds: {
        [
          "[default]\naws_access_key_id = A\naws_secret_access_key=B\n[profile x y]\n# c\nregion=z",
          #"{"AccessKeyId":"A","SecretAccessKey":"B","Expiration":"2026-01-31T09:05:00Z"}"#,
        ].map { [UInt8]($0) }
      },
      run: { bytes in
        let text = bytes.text
        _ = SharedFiles.sections(text)
        _ = try? MetadataClient.parse(bytes, source: "source")
      }),
    // The type of a reply, then what follows its number.
    FuzzTarget(
      "sftp-reply",
      seeds: {
        let attributes: [UInt8] = [0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0x81, 0xA4]
        let entry: [UInt8] = [0, 0, 0, 1, 0x61, 0, 0, 0, 1, 0x62] + attributes
        return [
          [101, 0, 0, 0, 2, 0, 0, 0, 1, 0x78, 0, 0, 0, 0], [102, 0, 0, 0, 2, 1, 2],
          [103, 0, 0, 0, 3, 1, 2, 3], [104, 0, 0, 0, 2] + entry + entry, [105] + attributes,
          [201, 1, 2, 3, 4],
        ]
      },
      run: { bytes in
        var reader = PacketReader(bytes.dropFirst())
        guard let type = bytes.first, let reply = try? SFTPReply(type, &reader) else { return }
        guard case .names(let names) = reply else { return }
        try expect(names.count <= bytes.count / 12, "a reply has more names than it has bytes for")
      }),
  ]
}
