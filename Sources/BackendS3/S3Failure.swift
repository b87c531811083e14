internal import Backend
internal import HTTPTransport

/// An answer that says no, as it is told to people: what happened, and what to do.
///
/// Source: "Error responses", Amazon S3 API Reference.
struct S3Failure: Equatable {
  var status: Int
  /// As the store's XML has it: `NoSuchKey`, `SlowDown`. Empty where there is none.
  var code = ""
  var message = ""
  /// The bucket's region or endpoint, in a redirect.
  var region: String?
  /// How many seconds the store's clock is ahead of this one, where it said.
  var skew: Int64?
  /// How long the store asks to be left alone, where it says.
  var retryAfter: Duration?
  /// The answer is one of a store: XML of its own kind, or nothing.
  var isOfStore = true

  /// Nil for an answer that says yes.
  init?(_ answer: S3Answer, now: Int64? = nil) {
    guard !(200..<300).contains(answer.status) else { return nil }
    status = answer.status
    region = answer.headers["x-amz-bucket-region"]
    retryAfter = answer.headers["retry-after"].flatMap(Int.init)
      .flatMap { (0...86_400).contains($0) ? .seconds($0) : nil }
    if !answer.body.isEmpty {
      if let xml = XMLElements(answer.body), xml.root == "Error" {
        code = xml.first("Error/Code") ?? ""
        message = xml.first("Error/Message") ?? ""
        region = region ?? xml.first("Error/Region") ?? xml.first("Error/Endpoint")
      } else {
        isOfStore = false
      }
    }
    if let now, let date = answer.headers["date"].flatMap(S3Time.seconds) {
      skew = date - now
    }
  }

  static func hasOldKeys(_ code: String) -> Bool {
    code == "ExpiredToken" || code == "TokenRefreshRequired"
  }

  /// `key`: what was asked for; nil for the bucket.
  func storeError(_ key: String?, _ place: String) -> StoreError {
    let said = [code, message].filter { !$0.isEmpty }.joined(separator: ": ")
    let text = said.isEmpty ? "HTTP status \(status)" : said
    switch code {
    case "NoSuchKey": return .notFound(key ?? "")
    case "NoSuchBucket":
      return .invalid("\(place) does not exist; create it, or sign in with the right URL")
    case "RequestTimeTooSkewed", "RequestExpired": return .notPermitted(clock(place))
    case "InvalidAccessKeyId":
      return .notPermitted("\(place) does not know the access key; check AWS_ACCESS_KEY_ID")
    case "SignatureDoesNotMatch":
      if let skew, abs(skew) > 840 { return .notPermitted(clock(place)) }
      return .notPermitted(
        "\(place) rejects the signature: the secret key or the region is wrong")
    case "AccessDenied", "AllAccessDisabled", "AccountProblem", "NotSignedUp":
      if let skew, abs(skew) > 840 { return .notPermitted(clock(place)) }
      return .notPermitted(
        "\(place) denies access (\(text)); allow the keys to list, get, put and delete there")
    case "ExpiredToken", "InvalidToken", "TokenRefreshRequired":
      return .notPermitted("the access keys for \(place) have expired (\(text)); get new ones")
    case "QuotaExceeded", "XMinioStorageFull", "InsufficientStorage", "EntityTooLarge":
      return .noSpace("\(place) is full (\(text)); free some space there or raise its quota")
    case "SlowDown", "ServiceUnavailable", "TooManyRequests":
      return .busy("\(place) is busy (\(text))", retryAfter: retryAfter)
    case "RequestTimeout", "InternalError", "OperationAborted",
      "ConditionalRequestConflict", "XAmzContentSHA256Mismatch", "BadDigest", "IncompleteBody":
      return .unavailable("\(place) failed temporarily (\(text))")
    case "NotImplemented":
      return .invalid(
        "\(place) lacks a function that ubiquityfs needs (\(text)); use another store")
    default: break
    }
    switch status {
    case 301, 302, 303, 307, 308:
      let hint =
        region.map { "it is at \"\($0)\"; sign in with that region or endpoint" }
        ?? "check the endpoint and the region"
      return .invalid("\(place) redirects to another address; \(hint)")
    case 404 where isOfStore && key != nil: return .notFound(key ?? "")
    case 429, 503:
      return .busy("\(place) is busy (\(text))", retryAfter: retryAfter)
    case 408, 409, 425, 500...506, 508...599:
      return .unavailable("\(place) failed temporarily (\(text))")
    case 507: return .noSpace("\(place) is full (\(text))")
    case 401, 403, 407:
      return .notPermitted(
        "\(place) denies access (\(text)); check the keys and the network's proxy")
    default: break
    }
    guard isOfStore else {
      return .invalid(
        "\(place) did not answer like an S3 store (HTTP status \(status)); check the endpoint")
    }
    return .invalid(
      "\(place) rejected a request (\(text)); check the URL's endpoint, region and style")
  }

  private func clock(_ place: String) -> String {
    let difference =
      skew.map { " by \(abs($0) / 60) min \(abs($0) % 60) s" }
      ?? " by more than a quarter of an hour"
    return
      "this machine's clock differs from that of \(place)\(difference); set it, for example with "
      + "`timedatectl set-ntp true`"
  }
}
