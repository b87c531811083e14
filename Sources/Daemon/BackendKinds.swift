internal import Backend
internal import BackendDirectory
internal import BackendS3
internal import BackendSFTP

/// The kinds of backend. A new one is a target with a `BackendLocation`, and one line here.
enum BackendKinds {
  static let all: [any BackendLocation.Type] = [
    DirectoryLocation.self,
    SFTPAddress.self,
    S3Address.self,
  ]

  /// The forms of all URLs, for messages and help texts.
  static var forms: String {
    let forms = all.map { $0.form }
    return forms.dropLast().joined(separator: ", ") + " or " + (forms.last ?? "")
  }
}
