import Backend
import BackendS3
import Testing

@Suite struct S3AddressTests {
  @Test func amazonsIsTheDefault() throws {
    let address = try S3Address("s3://bucket")
    #expect(address.base.origin == "https://bucket.s3.us-east-1.amazonaws.com")
    #expect(address.base.path.isEmpty && address.prefix.isEmpty && address.style == .virtual)
    // A name with a dot fits no certificate.
    let dotted = try S3Address("s3://my.bucket/p/q/?region=eu-west-1")
    #expect(dotted.base.origin == "https://s3.eu-west-1.amazonaws.com")
    #expect(dotted.base.path == "/my.bucket" && dotted.prefix == "p/q")
  }

  @Test func endpointsAreTakenByPath() throws {
    let address = try S3Address("s3://bucket/pre?endpoint=http://127.0.0.1:7480/&region=here")
    #expect(address.base.origin == "http://127.0.0.1:7480" && address.base.path == "/bucket")
    let virtual = try S3Address("s3://bucket?endpoint=https%3A%2F%2Fs3.example.org&style=virtual")
    #expect(virtual.base.origin == "https://bucket.s3.example.org" && virtual.base.path.isEmpty)
    #expect(try S3Address("s3://bucket?endpoint=http://[::1]:80").base.authority == "[::1]")
  }

  @Test func theEnvironmentSaysWhatIsMissing() throws {
    let environment = ["AWS_REGION": "eu-1", "AWS_ENDPOINT_URL": "http://cloud:1"]
    let address = try S3Address("s3://bucket/p", environment: environment)
    #expect(address.region == "eu-1" && address.base.origin == "http://cloud:1")
    // And what is kept of it needs no environment.
    #expect(try S3Address(address.description) == address)
    #expect(try S3Address("s3://bucket?region=x", environment: environment).region == "x")
  }

  @Test(arguments: [
    "", "s3:", "s3://", "s3:///x", "s3://ab", "s3://UPPER", "s3://bu cket", "s3://bucket/a b",
    "s3://bucket/../x", "s3://bucket?endpoint", "s3://bucket?endpoint=ftp://x",
    "s3://bucket?endpoint=http://", "s3://bucket?endpoint=http://h:99999",
    "s3://bucket?endpoint=http://h/path", "s3://bucket?unknown=1", "s3://bucket?style=other",
    "s3://bucket?region=a/b", "s3://bucket?ca=relative.pem", "s3://bucket?endpoint=http://user@h",
    "s3://bucket/tmp/x",
  ])
  func whatIsNoBucketIsRefused(_ url: String) {
    #expect(throws: StoreError.self) { try S3Address(url) }
  }
}
