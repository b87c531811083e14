internal import CCurl
internal import Platform
internal import Synchronization

/// One request on its way, and the response as far as it has come.
///
/// Belongs to the thread of its loop, except for `isCancelled`.
final class HTTPTransfer: @unchecked Sendable {
  let isCancelled = Atomic(false)

  private let request: HTTPRequest
  private var easy: UnsafeMutableRawPointer?
  private var fields: UnsafeMutablePointer<curl_slist>?
  private let errorText = UnsafeMutablePointer<CChar>.allocate(capacity: Int(CURL_ERROR_SIZE))

  private var sentBytes = 0
  private var status = 0
  private var headers = HTTPHeaders()
  private var headBytes = 0
  private var hasHead = false
  private var body: [UInt8] = []
  /// Set by a callback that ends the transfer; libcurl reports only that a callback did.
  private var failure: HTTPFailure?

  private var patience = Duration.zero
  private var deadline = AnswerDeadline(began: 0, patience: .zero, sent: 0)
  /// When bytes came or went last, in monotonic nanoseconds.
  private var lastProgress: UInt64 = 0
  private var seenSentBytes = 0

  private static let mostHeadBytes = 64 << 10
  /// The maximum that is reserved on the word of the server.
  private static let reservation = 16 << 20
  /// The size of libcurl's buffers.
  private static let bufferSize = 128 << 10
  /// Seconds after which an idle connection is not used again.
  private static let idleLimit = 60

  init(_ request: HTTPRequest) { self.request = request }

  deinit { errorText.deallocate() }

  // MARK: Sending

  /// Throws `.impossible` for a request that cannot be sent. `release` is due in any case.
  func prepare(
    _ easy: UnsafeMutableRawPointer, _ configuration: HTTPClient.Configuration
  ) throws(HTTPFailure) {
    self.easy = easy
    patience = configuration.patience
    lastProgress = monotonicNanoseconds()
    deadline = AnswerDeadline(
      began: lastProgress, patience: patience, sent: request.body.count)
    errorText.pointee = 0
    let context = Unmanaged.passUnretained(self).toOpaque()
    try text(CURLOPT_URL, request.url)
    try text(CURLOPT_PROTOCOLS_STR, "http,https")
    try number(CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1)
    // Keys of objects may contain any segment.
    try number(CURLOPT_PATH_AS_IS, 1)
    // Signals belong to the program.
    try number(CURLOPT_NOSIGNAL, 1)
    try number(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1)
    try number(CURLOPT_BUFFERSIZE, Self.bufferSize)
    try number(CURLOPT_UPLOAD_BUFFERSIZE, Self.bufferSize)
    try number(CURLOPT_MAXAGE_CONN, Self.idleLimit)
    try number(CURLOPT_CONNECTTIMEOUT_MS, Self.milliseconds(configuration.connectTimeout))
    if let timeout = request.timeout {
      try number(CURLOPT_TIMEOUT_MS, Self.milliseconds(timeout))
    }
    try number(CURLOPT_SSLVERSION, CURL_SSLVERSION_TLSv1_2)
    if let file = configuration.authorities {
      try text(CURLOPT_CAINFO, file)
      // The system's directory would be trusted beside the file.
      check(ccurl_set_text(easy, CURLOPT_CAPATH, nil))
    }
    // An empty text also keeps libcurl from reading the environment.
    try text(CURLOPT_PROXY, configuration.proxy ?? "")
    try text(CURLOPT_NOPROXY, configuration.proxyExceptions)
    check(ccurl_set_pointer(easy, CURLOPT_ERRORBUFFER, errorText))
    check(ccurl_set_callback(easy, CURLOPT_HEADERFUNCTION, Self.takeHeader))
    check(ccurl_set_pointer(easy, CURLOPT_HEADERDATA, context))
    check(ccurl_set_callback(easy, CURLOPT_WRITEFUNCTION, Self.takeBody))
    check(ccurl_set_pointer(easy, CURLOPT_WRITEDATA, context))
    if request.method == .put || request.method == .post {
      // Without a function to seek, libcurl cannot send a body a second time by itself.
      try number(CURLOPT_UPLOAD, 1)
      check(ccurl_set_size(easy, CURLOPT_INFILESIZE_LARGE, curl_off_t(request.body.count)))
      check(ccurl_set_callback(easy, CURLOPT_READFUNCTION, Self.giveBody))
      check(ccurl_set_pointer(easy, CURLOPT_READDATA, context))
    }
    try text(CURLOPT_CUSTOMREQUEST, request.method.rawValue)
    for field in request.headers.fields { try add(field) }
    // No round trip before the body.
    try append("Expect:")
    check(ccurl_set_pointer(easy, CURLOPT_HTTPHEADER, fields))
  }

  /// After the handle was removed from libcurl's transfers.
  func release() {
    if let easy { ccurl_easy_reset(easy) }
    if let fields { ccurl_free_list(fields) }
    fields = nil
    easy = nil
  }

  private func add(_ field: HTTPHeaders.Field) throws(HTTPFailure) {
    guard !(field.name + field.value).utf8.contains(where: { $0 < 0x20 || $0 == 0x7F }) else {
      throw .impossible("the header \"\(field.name)\" has a control character")
    }
    // libcurl takes a name and a colon alone for the wish to leave the field out.
    try append(field.value.isEmpty ? "\(field.name);" : "\(field.name): \(field.value)")
  }

  private func append(_ line: String) throws(HTTPFailure) {
    guard let list = ccurl_append(fields, line) else {
      throw .impossible("libcurl is out of memory")
    }
    fields = list
  }

  private func text(_ option: CURLoption, _ value: String) throws(HTTPFailure) {
    try require(ccurl_set_text(easy, option, value))
  }

  private func number(_ option: CURLoption, _ value: Int) throws(HTTPFailure) {
    try require(ccurl_set_number(easy, option, value))
  }

  private func require(_ code: CURLcode) throws(HTTPFailure) {
    guard code == CURLE_OK else {
      throw .impossible(String(cString: ccurl_error_text(code)))
    }
  }

  /// For options that take any pointer.
  private func check(_ code: CURLcode) {
    precondition(code == CURLE_OK, "libcurl refuses an option: \(code.rawValue)")
  }

  private static func milliseconds(_ duration: Duration) -> Int {
    let (seconds, attoseconds) = duration.components
    return Int(clamping: max(1, min(seconds, 1 << 20) * 1000 + attoseconds / 1_000_000_000_000_000))
  }

  // MARK: Callbacks

  private static func from(_ context: UnsafeMutableRawPointer?) -> HTTPTransfer? {
    context.map { Unmanaged<HTTPTransfer>.fromOpaque($0).takeUnretainedValue() }
  }

  private static var giveBody: ccurl_callback {
    { bytes, size, count, context in
      guard let bytes, let transfer = HTTPTransfer.from(context) else { return 0 }
      return transfer.give(UnsafeMutableRawBufferPointer(start: bytes, count: size * count))
    }
  }

  private static var takeHeader: ccurl_callback {
    { bytes, size, count, context in
      guard let bytes, let transfer = HTTPTransfer.from(context) else { return 0 }
      let line = UnsafeRawBufferPointer(start: bytes, count: size * count)
      return transfer.takeHeader(line) ? line.count : 0
    }
  }

  private static var takeBody: ccurl_callback {
    { bytes, size, count, context in
      guard let bytes, let transfer = HTTPTransfer.from(context) else { return 0 }
      let part = UnsafeRawBufferPointer(start: bytes, count: size * count)
      return transfer.takeBody(part) ? part.count : 0
    }
  }

  private func give(_ buffer: UnsafeMutableRawBufferPointer) -> Int {
    let count = min(buffer.count, request.body.count - sentBytes)
    request.body.withUnsafeBytes { body in
      buffer.copyMemory(from: UnsafeRawBufferPointer(rebasing: body[sentBytes..<sentBytes + count]))
    }
    sentBytes += count
    return count
  }

  /// One line of a head, with its end. An interim response (1xx) has a head of its own.
  private func takeHeader(_ line: UnsafeRawBufferPointer) -> Bool {
    lastProgress = monotonicNanoseconds()
    headBytes += line.count
    guard headBytes <= Self.mostHeadBytes else {
      failure = .tooLong
      return false
    }
    // Trailers.
    guard !hasHead else { return true }
    let text = String(decoding: line, as: UTF8.self)
      .trimmingPrefix { $0.isWhitespace }
    if text.isEmpty {
      hasHead = status >= 200
      if hasHead { prepareBody() }
    } else if text.hasPrefix("HTTP/") {
      headers = HTTPHeaders()
      status = text.split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0
    } else if let colon = text.firstIndex(of: ":") {
      let value =
        text[text.index(after: colon)...]
        .split(whereSeparator: { $0.isNewline }).first ?? ""
      headers.append(String(text[..<colon]), Self.trimmed(value))
    }
    return true
  }

  private static func trimmed(_ text: Substring) -> String {
    var text = text
    while let last = text.last, last.isWhitespace { text.removeLast() }
    return String(text.drop { $0.isWhitespace })
  }

  private var limit: Int {
    (200..<300).contains(status) ? request.limit : request.failureLimit
  }

  private func prepareBody() {
    let length = headers["content-length"].flatMap { Int($0) }
    deadline.mostBytes = min(max(0, length ?? limit), limit)
    body.reserveCapacity(min(deadline.mostBytes, length == nil ? 0 : Self.reservation))
  }

  private func takeBody(_ part: UnsafeRawBufferPointer) -> Bool {
    lastProgress = monotonicNanoseconds()
    guard part.count <= limit - body.count else {
      failure = .tooLong
      return false
    }
    body.append(contentsOf: part)
    return true
  }

  // MARK: Ending

  /// Nil while no deadline has passed.
  func overdue(at now: UInt64) -> HTTPFailure? {
    var sent: curl_off_t = 0
    ccurl_get_size(easy, CURLINFO_SIZE_UPLOAD_T, &sent)
    if Int(sent) != seenSentBytes {
      seenSentBytes = Int(sent)
      lastProgress = now
    }
    let silence = Duration.nanoseconds(Int64(clamping: now - min(lastProgress, now)))
    if silence > patience { return .timedOut("no data for \(patience.components.seconds) s") }
    guard hasHead else {
      return deadline.allowsHead(at: now) ? nil : .timedOut("no answer")
    }
    return deadline.allows(received: body.count, at: now) ? nil : .tooSlow
  }

  /// The result of a transfer that libcurl ended.
  func result(_ code: CURLcode) -> Result<HTTPResponse, HTTPFailure> {
    if let failure { return .failure(failure) }
    guard code == CURLE_OK else { return .failure(failure(of: code)) }
    // libcurl takes a head that is cut off for complete.
    guard hasHead else { return .failure(.cutShort) }
    return .success(HTTPResponse(status: status, headers: headers, body: body))
  }

  private func failure(of code: CURLcode) -> HTTPFailure {
    let reason = errorText.pointee == 0 ? ccurl_error_text(code) : UnsafePointer(errorText)
    let text = reason.map { String(cString: $0) } ?? "libcurl error \(code.rawValue)"
    switch code {
    case CURLE_OPERATION_TIMEDOUT: return .timedOut(text)
    case CURLE_PARTIAL_FILE, CURLE_GOT_NOTHING: return .cutShort
    case CURLE_PEER_FAILED_VERIFICATION: return .unknownAuthority(text)
    case CURLE_SSL_CACERT_BADFILE: return .unreadableAuthorities(text)
    case CURLE_SSL_CONNECT_ERROR, CURLE_SSL_CIPHER, CURLE_SSL_ISSUER_ERROR: return .insecure(text)
    case CURLE_COULDNT_RESOLVE_HOST, CURLE_COULDNT_RESOLVE_PROXY, CURLE_COULDNT_CONNECT,
      CURLE_PROXY:
      return .unreachable(text)
    case CURLE_URL_MALFORMAT: return .impossible(text)
    default: return .connectionFailed(text)
    }
  }
}
