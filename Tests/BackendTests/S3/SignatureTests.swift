import BackendS3
import Testing

/// The examples of "Signature Calculations for the Authorization Header: Transferring Payload in a
/// Single Chunk", Amazon S3 API Reference.
@Suite struct SignatureTests {
  private static let keys = S3Keys(
    identifier: "AKIAIOSFODNN7EXAMPLE", secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
  private static let time = "20130524T000000Z"
  private static let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

  struct Example: Sendable {
    var request: SignedParts
    var payload = SignatureTests.empty
    var signature: String
  }

  private static func headers(
    _ more: [(name: String, value: String)] = [], payload: String = SignatureTests.empty
  ) -> [(name: String, value: String)] {
    more + [
      ("host", "examplebucket.s3.amazonaws.com"), ("x-amz-content-sha256", payload),
      ("x-amz-date", time),
    ]
  }

  private static let body = "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072"

  static let examples: [Example] = [
    Example(
      request: SignedParts(
        method: "GET", path: "/test.txt", headers: headers([("range", "bytes=0-9")])),
      signature: "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"),
    Example(
      request: SignedParts(
        method: "PUT", path: Signature.encode("/test$file.text", keepsSlash: true),
        headers: headers(
          [
            ("date", "Fri, 24 May 2013 00:00:00 GMT"),
            ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
          ], payload: body)), payload: body,
      signature: "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"),
    Example(
      request: SignedParts(
        method: "GET", path: "/", query: [("lifecycle", "")], headers: headers()),
      signature: "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
    Example(
      request: SignedParts(
        method: "GET", path: "/", query: [("max-keys", "2"), ("prefix", "J")], headers: headers()),
      signature: "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"),
  ]

  @Test(arguments: examples.indices) func published(_ index: Int) {
    let example = Self.examples[index]
    let text = Signature(region: "us-east-1").authorization(
      for: example.request, payload: example.payload, time: Self.time, keys: Self.keys)
    #expect(text.hasSuffix("Signature=\(example.signature)"))
    #expect(
      text.hasPrefix(
        "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "
          + "SignedHeaders="))
  }

  @Test func bodiesAreHashed() {
    #expect(Signature.hash([]) == Self.empty)
    #expect(Signature.hash(Array("Welcome to Amazon S3.".utf8)) == Self.body)
  }

  @Test func queriesAreSortedAndEncoded() {
    let request = SignedParts(
      method: "GET", path: "/", query: [("prefix", "a/b c"), ("list-type", "2"), ("x", "ä~")],
      headers: [])
    #expect(request.queryText == "list-type=2&prefix=a%2Fb%20c&x=%C3%A4~")
  }
}
