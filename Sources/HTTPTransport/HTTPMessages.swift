/// The methods of RFC 9110 that object stores need.
package enum HTTPMethod: String, Sendable {
  case get = "GET"
  case put = "PUT"
  case post = "POST"
  case delete = "DELETE"
}

/// Header fields in their order. Names are compared without regard to case.
package struct HTTPHeaders: Equatable, Sendable, ExpressibleByDictionaryLiteral {
  package struct Field: Equatable, Sendable {
    package var name: String
    package var value: String
  }

  package private(set) var fields: [Field] = []

  package init() {}

  package init(dictionaryLiteral elements: (String, String)...) {
    for (name, value) in elements { append(name, value) }
  }

  package mutating func append(_ name: String, _ value: String) {
    fields.append(Field(name: name, value: value))
  }

  /// The value of the first field with that name.
  package subscript(name: String) -> String? {
    fields.first { $0.name.lowercased() == name.lowercased() }?.value
  }
}

package struct HTTPRequest: Sendable {
  package var method: HTTPMethod
  package var url: String
  package var headers: HTTPHeaders
  package var body: [UInt8] = []
  /// The maximum number of bytes in the body of a successful response (status 200 to 299).
  package var limit = 1 << 20
  /// The same for all other responses.
  package var failureLimit = 1 << 20
  /// The maximum time from the start of the transfer to its end. Nil: only `AnswerDeadline` counts.
  package var timeout: Duration?

  package init(method: HTTPMethod, url: String, headers: HTTPHeaders = HTTPHeaders()) {
    self.method = method
    self.url = url
    self.headers = headers
  }
}

/// A complete response. A body that is shorter than announced is a failure.
package struct HTTPResponse: Sendable {
  package var status: Int
  package var headers: HTTPHeaders
  package var body: [UInt8]

  package init(status: Int, headers: HTTPHeaders, body: [UInt8]) {
    self.status = status
    self.headers = headers
    self.body = body
  }
}

/// The reason why there is no response. Texts come from libcurl, and may quote the server.
package enum HTTPFailure: Error, Equatable {
  case cancelled
  /// A timeout was reached: the text says which.
  case timedOut(String)
  /// The response came slower than `AnswerDeadline` allows.
  case tooSlow
  /// The response has more bytes than the request's limit.
  case tooLong
  /// The connection ended before the response was complete.
  case cutShort
  case unknownAuthority(String)
  /// TLS failed for another reason.
  case insecure(String)
  /// A file of trusted certificates cannot be read.
  case unreadableAuthorities(String)
  case unreachable(String)
  case connectionFailed(String)
  /// The request cannot be sent as it is, or libcurl is missing.
  case impossible(String)
}
