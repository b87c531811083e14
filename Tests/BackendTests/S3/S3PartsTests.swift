import Backend
import HTTPTransport
import Testing

@testable import BackendS3

@Suite struct S3PartsTests {
  // MARK: XML

  @Test func listsAreRead() throws {
    let xml = try #require(
      XMLElements(
        Array(
          """
          <?xml version="1.0" encoding="UTF-8"?>
          <!-- a comment -->
          <ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>b</Name>
          <IsTruncated>false</IsTruncated><Contents><Key>a/1</Key><Owner><ID>x</ID></Owner></Contents>
          <Contents><Key>a&amp;&#x32;</Key></Contents><Marker/></ListBucketResult>
          """.utf8)))
    #expect(xml.root == "ListBucketResult")
    #expect(xml.all("ListBucketResult/Contents/Key") == ["a/1", "a&2"])
    #expect(xml.first("ListBucketResult/IsTruncated") == "false")
    #expect(xml.first("ListBucketResult/Marker") == "")
  }

  @Test(arguments: [
    "", "text", "<a>", "<a></b>", "<a></a><b></b>", "<a><b></a></b>", "<a>&nbsp;</a>", "<a>&", "<",
    "<!DOCTYPE html><html></html>", "<a b=\"c", "<a/>x", "</a>", "<?xml", "<a><!-- </a>",
    "{\"json\": true}",
  ])
  func whatIsNoneIsRefused(_ text: String) {
    #expect(XMLElements(Array(text.utf8)) == nil)
  }

  @Test func deepOnesAreRefused() {
    let text = String(repeating: "<a>", count: 40) + String(repeating: "</a>", count: 40)
    #expect(XMLElements(Array(text.utf8)) == nil)
  }

  /// Every beginning of a document, and every one with a byte changed: some answer, and no crash.
  @Test func damagedOnesHarmNobody() {
    let whole = Array("<a><b c='d'>&lt;x</b><e/><!-- f --></a>".utf8)
    for end in whole.indices { _ = XMLElements(Array(whole[..<end])) }
    for place in whole.indices {
      for byte in UInt8.min...UInt8.max {
        var changed = whole
        changed[place] = byte
        _ = XMLElements(changed)
      }
    }
  }

  // MARK: Time

  @Test func timesAreWrittenAndRead() {
    #expect(S3Time.text(1_369_353_600) == "20130524T000000Z")
    #expect(S3Time.text(0) == "19700101T000000Z")
    #expect(S3Time.text(1_709_210_096) == "20240229T123456Z")
    #expect(S3Time.seconds("2013-05-24T00:00:00Z") == 1_369_353_600)
    #expect(S3Time.seconds("2024-02-29T12:34:56.789Z") == 1_709_210_096)
    #expect(S3Time.seconds("Fri, 24 May 2013 00:00:00 GMT") == 1_369_353_600)
    #expect(S3Time.seconds("yesterday") == nil)
    // What a server says in its `Date` is any number.
    for odd in [
      "Fri, 24 May 9223372036854775807 00:00:00 GMT",
      "Fri, 24 May 2013 9223372036854775807:00:00 GMT",
      "9223372036854775807-05-24T00:00:00Z", "2013-9223372036854775807-24T00:00:00Z",
      "2013-05-24T9223372036854775807:00:00Z", "2013-05-24T00:9223372036854775807:00Z",
    ] { #expect(S3Time.seconds(odd) == nil, "\(odd)") }
  }

  // MARK: What went wrong

  private func told(
    _ status: Int, _ body: String = "", headers: HTTPHeaders = [:], key: String? = "k",
    now: Int64? = nil
  ) -> StoreError? {
    let answer = S3Answer(status: status, headers: headers, body: Array(body.utf8))
    return S3Failure(answer, now: now)?.storeError(key, "bucket at host")
  }

  private func error(_ code: String) -> String { "<Error><Code>\(code)</Code></Error>" }

  @Test func answersAreTold() {
    #expect(told(200) == nil && told(204) == nil)
    #expect(told(404, error("NoSuchKey")) == .notFound("k"))
    #expect(told(404) == .notFound("k"))
    for (status, code) in [
      (500, "InternalError"), (409, "ConditionalRequestConflict"), (502, ""),
      (400, "RequestTimeout"),
    ] {
      guard case .unavailable = told(status, code.isEmpty ? "" : error(code)) else {
        Issue.record("\(status) \(code) is not tried again")
        continue
      }
    }
    for (status, code) in [(503, "SlowDown"), (503, ""), (429, ""), (400, "TooManyRequests")] {
      let body = code.isEmpty ? "" : error(code)
      guard case .busy(_, nil) = told(status, body),
        case .busy(_, .seconds(7)?) = told(status, body, headers: ["retry-after": "7"]),
        case .busy(_, nil) = told(status, body, headers: ["retry-after": "later"])
      else {
        Issue.record("\(status) \(code) asks for no pause")
        continue
      }
    }
    for code in ["InvalidAccessKeyId", "SignatureDoesNotMatch", "AccessDenied", "ExpiredToken"] {
      guard case .notPermitted(let text) = told(403, error(code)) else {
        Issue.record("\(code) is something else")
        continue
      }
      #expect(text.contains("key") || text.contains("access"))
    }
    guard case .invalid(let missing) = told(404, error("NoSuchBucket")),
      case .invalid(let page) = told(404, "<html><body>Hello</body></html>"),
      case .invalid(let moved) = told(
        301, error("PermanentRedirect"), headers: ["x-amz-bucket-region": "eu-9"]),
      case .noSpace = told(403, error("QuotaExceeded"))
    else {
      Issue.record("something is told as something else")
      return
    }
    #expect(missing.contains("does not exist"))
    #expect(page.contains("endpoint") && moved.contains("eu-9"))
  }

  @Test func aWrongClockIsNamed() {
    let date: HTTPHeaders = ["date": "Fri, 24 May 2013 00:20:00 GMT"]
    for code in ["RequestTimeTooSkewed", "SignatureDoesNotMatch", "AccessDenied"] {
      guard case .notPermitted(let text) = told(403, error(code), headers: date, now: 1_369_353_600)
      else {
        Issue.record("\(code) is something else")
        continue
      }
      #expect(text.contains("clock") && text.contains("20 min") && text.contains("timedatectl"))
    }
  }

  // MARK: Keys

  @Test func sharedFilesAreRead() throws {
    let sections = SharedFiles.sections(
      """
      # a comment
      [default]
      aws_access_key_id = ONE
      aws_secret_access_key=two=three
      [profile  work ]
      region = eu-1
      """)
    #expect(sections["default"]?["aws_access_key_id"] == "ONE")
    #expect(sections["default"]?["aws_secret_access_key"] == "two=three")
    #expect(sections["profile work"]?["region"] == "eu-1")

    let place = try TemporaryDirectory()
    let file = place.path + "/credentials"
    try write("[default]\naws_access_key_id=A\naws_secret_access_key=B\n[other]\n", to: file)
    let environment = ["AWS_SHARED_CREDENTIALS_FILE": file, "AWS_CONFIG_FILE": "/nonexistent"]
    #expect(try SharedFiles(environment: environment).keys()?.keys.identifier == "A")
    #expect(
      try SharedFiles(environment: environment.merging(["AWS_PROFILE": "other"]) { $1 }).keys()
        == nil)
    #expect(throws: StoreError.self) {
      try SharedFiles(environment: environment.merging(["AWS_PROFILE": "none"]) { $1 }).keys()
    }
  }

  @Test func givenKeysAreRead() throws {
    let answer = """
      {"AccessKeyId": "A", "SecretAccessKey": "B", "Token": "C",
      "Expiration": "2013-05-24T00:00:00Z", "Code": "Success"}
      """
    let found = try MetadataClient.parse(Array(answer.utf8), source: "x")
    #expect(found.keys == S3Keys(identifier: "A", secret: "B", token: "C"))
    #expect(found.expires == 1_369_353_600)
    #expect(throws: StoreError.self) { try MetadataClient.parse(Array("<html>".utf8), source: "x") }
  }

  // MARK: The proxy

  @Test("the proxy follows the scheme of the endpoint, and small letters win")
  func proxySettings() throws {
    let secure = try #require(S3Endpoint("https://s3.example.org"))
    let plain = try #require(S3Endpoint("http://10.0.0.1:7480"))
    let environment = [
      "HTTPS_PROXY": "http://me:secret@proxy:3128/", "no_proxy": "10.0.0.1,.local",
    ]
    let found = ProxySettings(for: secure, environment)
    #expect(found.proxy == "http://me:secret@proxy:3128/" && found.exceptions == "10.0.0.1,.local")
    #expect(ProxySettings(for: plain, environment).proxy == nil)
    #expect(
      ProxySettings(for: plain, ["all_proxy": "socks5h://h", "http_proxy": ""]).proxy
        == "socks5h://h")
    #expect(
      ProxySettings(for: plain, ["http_proxy": "http://a", "HTTP_PROXY": "http://b"]).proxy
        == "http://a")
  }
}
