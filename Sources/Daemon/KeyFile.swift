internal import ControlProtocol
internal import Glibc
internal import Platform
internal import RemoteStore
internal import SystemPackage

/// The file that keeps an account's secret for further state directories of the same user; see
/// `BackendAddress.keyFile`.
struct KeyFile {
  let path: String

  /// Nil where there is none. Fails for a file that another user may have read or written.
  func secret() throws(ControlError) -> AccountSecret? {
    do {
      let file = try OpenFile.open(path, flags: O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
      let status = try file.status()
      guard status.st_mode & S_IFMT == S_IFREG, status.st_uid == geteuid(),
        status.st_mode & 0o077 == 0
      else {
        throw ControlError(
          .notPermitted,
          "another user owns \"\(path)\", or other users can read or change it; pass the secret "
            + "with --secret-file")
      }
      return try AccountSecret(SecretBytes(firstLineOf: file))
    } catch Errno.noSuchFileOrDirectory {
      return nil
    } catch let error as ControlError {
      throw error
    } catch {
      throw ControlError(.failed, "cannot use \"\(path)\": \(error)")
    }
  }

  /// The account has another secret.
  func replace(_ secret: AccountSecret) throws(ControlError) {
    do throws(Errno) {
      try secret.bytes.withLine { line throws(Errno) in try Files.replace(path, with: line) }
    } catch {
      throw ControlError(
        .failed, "cannot save the account's new secret in \"\(path)\": \(error)")
    }
  }

  /// Keeps a new secret before the account is made with it: an account whose secret nobody knows
  /// would be of no use. Of two that sign in at once, one's secret is kept, and both use it.
  func keep(_ secret: AccountSecret) throws(ControlError) -> AccountSecret {
    do throws(Errno) {
      try secret.bytes.withLine { line throws(Errno) in try Files.create(path, with: line) }
      return secret
    } catch .fileExists {
      return try self.secret() ?? secret
    } catch {
      throw ControlError(
        .failed, "cannot save the new account's secret in \"\(path)\": \(error)")
    }
  }
}

extension SecretBytes {
  /// Of a file with at most 4096 bytes in it; no other copy is made. The newline is not part of it.
  convenience init(firstLineOf file: OpenFile) throws(Errno) {
    try self.init(capacity: 4097) { buffer throws(Errno) in
      let count = try retrying { pread(file.descriptor, buffer.baseAddress, buffer.count, 0) }
      return buffer[..<count].firstIndex(of: 0x0A) ?? count
    }
  }

  /// With a newline at its end, in an array that is overwritten afterwards.
  func withLine<Value>(_ body: ([UInt8]) throws(Errno) -> Value) throws(Errno) -> Value {
    var line = [UInt8]()
    line.reserveCapacity(count + 1)
    withBytes { line.append(contentsOf: $0) }
    line.append(0x0A)
    defer { SecretBytes.wipe(&line) }
    return try body(line)
  }
}
