internal import FoundationEssentials
internal import Platform

/// A request's `id`, given back in its reply. JSON-RPC 2.0, section 4.
package enum MessageID: Hashable, Codable, Sendable {
  case number(Int)
  case text(String)
  case null

  package init(from decoder: any Decoder) throws {
    let container = try decoder.singleValueContainer()
    if container.decodeNil() {
      self = .null
    } else if let number = try? container.decode(Int.self) {
      self = .number(number)
    } else {
      self = .text(try container.decode(String.self))
    }
  }

  package func encode(to encoder: any Encoder) throws {
    var container = encoder.singleValueContainer()
    switch self {
    case .number(let number): try container.encode(number)
    case .text(let text): try container.encode(text)
    case .null: try container.encodeNil()
    }
  }
}

/// The reserved codes of JSON-RPC 2.0, section 5.1, and ours for everything that a method reports.
package enum ErrorCode {
  package static let parseError = -32700
  package static let invalidRequest = -32600
  package static let methodNotFound = -32601
  package static let invalidParameters = -32602
  package static let methodFailed = -32000
}

/// A reply's `error`. `data.exitCode` is the exit status of a command that shows it.
package struct ErrorObject: Codable, Equatable, Sendable {
  package struct Details: Codable, Equatable, Sendable {
    package var exitCode: Int32
  }

  package var code: Int
  package var message: String
  package var data: Details?

  package init(code: Int, message: String, status: ExitStatus) {
    self.code = code
    self.message = message
    self.data = Details(exitCode: status.rawValue)
  }

  package init(_ error: ControlError) {
    self.init(code: ErrorCode.methodFailed, message: error.message, status: error.status)
  }

  package var controlError: ControlError {
    ControlError(data.flatMap { ExitStatus(rawValue: $0.exitCode) } ?? .failed, message)
  }
}

/// No parameters, or nothing to answer: `{}`.
package struct Nothing: Codable, Equatable, Sendable {
  package init() {}
}

/// What a request is about, read before its parameters are.
package struct RequestHead: Sendable {
  /// Nil for a notification, which gets no reply.
  package let id: MessageID?
  package let method: String
}

/// Encoding and decoding of single messages. Bytes that arrive are hostile until decoded: their
/// length is bounded by `LineBuffer`, their depth by the JSON decoder.
package enum Message {
  private struct Incoming: Decodable {
    var jsonrpc: String?
    var id: MessageID?
    var method: String?

    enum Key: String, CodingKey { case jsonrpc, id, method }

    init(from decoder: any Decoder) throws {
      let container = try decoder.container(keyedBy: Key.self)
      jsonrpc = try container.decodeIfPresent(String.self, forKey: .jsonrpc)
      id = container.contains(.id) ? try container.decode(MessageID.self, forKey: .id) : nil
      method = try container.decodeIfPresent(String.self, forKey: .method)
    }
  }

  private struct Parameters<Value: Decodable>: Decodable {
    var params: Value?
  }

  private struct Request<Value: Encodable>: Encodable {
    var jsonrpc = "2.0"
    var id: MessageID?
    var method: String
    var params: Value
  }

  private struct Reply<Value: Encodable>: Encodable {
    var jsonrpc = "2.0"
    var id: MessageID
    var result: Value
  }

  private struct Failure: Encodable {
    var jsonrpc = "2.0"
    var id: MessageID
    var error: ErrorObject
  }

  private struct AnyReply<Value: Decodable>: Decodable {
    var id: MessageID?
    var method: String?
    var result: Value?
    var error: ErrorObject?
  }

  package enum Received<Value: Sendable>: Sendable {
    case result(Value)
    case failure(ErrorObject)
    /// A notification of this method; its parameters are still in the line.
    case notification(String)
  }

  /// Reads what a line asks for; throws the error object to answer with.
  package static func head(_ line: [UInt8]) throws(HeadError) -> RequestHead {
    let incoming: Incoming
    do {
      incoming = try BoundedJSON.decode(Incoming.self, from: line)
    } catch DecodingError.dataCorrupted {
      throw HeadError(
        object: ErrorObject(
          code: ErrorCode.parseError, message: "the message is not JSON", status: .failed))
    } catch {
      throw HeadError(
        object: ErrorObject(
          code: ErrorCode.invalidRequest, message: "the message is not a request of JSON-RPC 2.0",
          status: .failed))
    }
    guard incoming.jsonrpc == "2.0", let method = incoming.method else {
      throw HeadError(
        object: ErrorObject(
          code: ErrorCode.invalidRequest, message: "the message is not a request of JSON-RPC 2.0",
          status: .failed))
    }
    return RequestHead(id: incoming.id, method: method)
  }

  package struct HeadError: Error {
    package let object: ErrorObject
  }

  /// The parameters in a line; a missing `params` is an empty object.
  package static func parameters<Value: Decodable>(
    _: Value.Type, in line: [UInt8]
  ) throws -> Value {
    if let value = try BoundedJSON.decode(Parameters<Value>.self, from: line).params {
      return value
    }
    return try BoundedJSON.decode(Value.self, from: "{}".utf8)
  }

  package static func request(id: MessageID, method: String, _ parameters: some Encodable)
    throws -> [UInt8]
  {
    try line(Request(id: id, method: method, params: parameters))
  }

  package static func notification(method: String, _ parameters: some Encodable) throws -> [UInt8] {
    try line(Request(id: nil, method: method, params: parameters))
  }

  package static func reply(id: MessageID, _ result: some Encodable) throws -> [UInt8] {
    try line(Reply(id: id, result: result))
  }

  package static func failure(id: MessageID, _ error: ErrorObject) throws -> [UInt8] {
    try line(Failure(id: id, error: error))
  }

  /// What a line of a daemon is.
  package enum Arrival: Equatable, Sendable {
    case reply(to: MessageID)
    /// Of this method.
    case notification(String)
  }

  /// What a line of a daemon is, without what is in it.
  package static func arrival(_ line: [UInt8]) throws -> Arrival {
    let incoming = try BoundedJSON.decode(Incoming.self, from: line)
    if let id = incoming.id { return .reply(to: id) }
    if let method = incoming.method { return .notification(method) }
    throw ControlError(.failed, "the daemon's message is neither a reply nor a notification")
  }

  /// Reads what a daemon said to the request `id`.
  package static func received<Value: Decodable & Sendable>(
    _: Value.Type, in line: [UInt8]
  ) throws -> Received<Value> {
    let reply = try BoundedJSON.decode(AnyReply<Value>.self, from: line)
    if let error = reply.error { return .failure(error) }
    if let result = reply.result { return .result(result) }
    if let method = reply.method { return .notification(method) }
    throw ControlError(.failed, "the daemon's reply is neither a result nor an error")
  }

  /// One line of JSON with its newline; JSON escapes newlines in strings, so it has no other.
  private static func line(_ value: some Encodable) throws -> [UInt8] {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    return Array(try encoder.encode(value)) + [0x0A]
  }
}
