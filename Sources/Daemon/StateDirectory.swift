package import ControlProtocol
internal import Glibc
internal import Model
package import Platform
internal import SystemPackage

/// The directory that makes a device: `0700`, its owner's alone, served by one daemon.
///
///     control.sock           the control socket, 0600
///     daemon.lock            held by the daemon for as long as it lives; its process id inside
///     mounts.served          what the daemon has mounted, for whoever finds the daemon killed
///     mounts.list            what is to be mounted again at the start after a crash
///     daemon.log             what the daemon logs; daemon.log.1 is the part before
///     downloads.log          who caused which download; downloads.log.1 is the part before
///     device.json            the device's identity, name and private keys, 0600; stays when an
///                            account is signed out
///     account.members        the account's member log, as this device has read it
///     account.records        the newest small objects of the account that this device saw
///     account.json           backend, `format` and access keys of the account, 0600
///     secret                 the account's secret, 0600
///     identity               tells the account that is signed in from others; no secret
///     quota.json             what is known of the account's quota, and of what its containers take
///     offline                is there while the device is to stay off the backend
///     network.json           limits and metered mode as they were set by command
///     containers/ID/         the catalog and the content files of a container
///     containers-ACCOUNT/    the same of an account that was signed out
///     set-aside/ID/          what was here of a container that the account no longer has
///     mounts/ID/             where a program that asked for a container has it mounted
///     snapshots/N/           copies for claims `forUploading`, as long as those last
package struct StateDirectory: Sendable {
  /// Absolute.
  package let path: String

  private init(path: String) { self.path = path }

  /// Makes the directory if it is not there and makes sure that nobody else can look into it.
  /// Throws `notPermitted` for one that belongs to another user.
  package static func prepare(_ path: String) throws(ControlError) -> StateDirectory {
    do {
      try Files.makeDirectories(path)
      let status = try Files.status(path)
      guard status.st_mode & S_IFMT == S_IFDIR else { throw Errno.notDirectory }
      guard status.st_uid == geteuid() else {
        throw ControlError(
          .notPermitted,
          "the state directory \"\(path)\" belongs to another user (uid \(status.st_uid)); choose "
            + "another with --state")
      }
      if status.st_mode & 0o077 != 0 { _ = try retrying { chmod(path, 0o700) } }
    } catch let error as ControlError {
      throw error
    } catch let error as Errno {
      throw ControlError(
        [.permissionDenied, .notPermitted, .readOnlyFileSystem].contains(error)
          ? .notPermitted : .failed,
        "cannot use the state directory \"\(path)\": \(error); choose another with --state")
    } catch {
      throw ControlError(.failed, "\(error)")
    }
    return StateDirectory(path: path)
  }

  package var account: String { path + "/account.json" }
  /// Apart from `account.json`, so that it is read into memory of its own and nowhere else.
  package var secret: String { path + "/secret" }
  package var servedMounts: String { path + "/" + ServedMounts.fileName }
  package var mountList: String { path + "/mounts.list" }
  package var quota: String { path + "/quota.json" }
  package var device: String { path + "/device.json" }
  package func memory(_ part: String) -> String { path + "/account." + part }
  package var identity: String { path + "/" + IdentityReport.fileName }
  package var log: String { path + "/daemon.log" }
  package var downloadLog: String { path + "/" + DownloadReport.fileName }
  package var containers: String { path + "/containers" }
  package var setAside: String { path + "/set-aside" }
  /// Of an account that is signed out, by its identity.
  package func parkedContainers(account: [UInt8]) -> String {
    containers + "-" + Hex.encode(account)
  }
  package func containersParked(asFormerly identifier: String) -> String {
    containers + "-" + identifier
  }

  // MARK: The lock

  /// Takes the lock that makes this process the daemon of the directory; it goes with the process.
  /// Throws `busy` if another has it.
  package func lock() throws(ControlError) -> OpenFile {
    do {
      // Never through a link: what it leads to would be cut and written.
      let file = try OpenFile.open(
        path + "/daemon.lock", flags: O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK, mode: 0o600)
      let status = try file.status()
      guard status.st_mode & S_IFMT == S_IFREG, status.st_uid == geteuid(), status.st_nlink == 1
      else {
        throw ControlError(
          .notPermitted,
          "\"\(path)/daemon.lock\" is not a regular file of this user; check its origin, and "
            + "remove it")
      }
      var isLocked = flock(file.descriptor, LOCK_EX | LOCK_NB) == 0
      if !isLocked, errno == EWOULDBLOCK {
        // A daemon that was killed keeps it until the kernel has let go of that daemon.
        let release = ServedMounts.release(state: path)
        if let complaint = release.complaint { throw ControlError(.failed, complaint) }
        isLocked = flock(file.descriptor, LOCK_EX | LOCK_NB) == 0
      }
      if !isLocked {
        guard errno == EWOULDBLOCK else { throw Errno(rawValue: errno) }
        let owner =
          String(decoding: try file.read(count: 20, at: 0), as: UTF8.self)
          .split(separator: "\n").first.map { " (process \($0))" } ?? ""
        throw ControlError(
          .busy,
          "another daemon already serves \"\(path)\"\(owner); use it, or stop it with SIGTERM")
      }
      try file.truncate(to: 0)
      try file.write(Array("\(getpid())\n".utf8), at: 0)
      return file
    } catch let error as ControlError {
      throw error
    } catch {
      throw ControlError(
        .failed, "cannot lock \"\(path)/daemon.lock\": \(error)")
    }
  }

  /// Whether `lock` is the one of the directory that the path names now. Somebody may have removed
  /// the directory and made it anew, for another daemon.
  package func isLocked(by lock: OpenFile) -> Bool {
    guard let held = try? lock.status(), let named = try? Files.status(path + "/daemon.lock") else {
      return false
    }
    return held.st_dev == named.st_dev && held.st_ino == named.st_ino
  }

  /// Makes this process the daemon with a lock that an earlier daemon had taken, and left to it.
  package func takeOver(_ lock: OpenFile) throws(ControlError) {
    guard isLocked(by: lock) else {
      throw ControlError(
        .failed, "\"\(path)/daemon.lock\" is not the lock that the earlier daemon left")
    }
    do throws(Errno) {
      try lock.truncate(to: 0)
      try lock.write(Array("\(getpid())\n".utf8), at: 0)
    } catch {
      throw ControlError(.failed, "cannot write \"\(path)/daemon.lock\": \(error)")
    }
  }

  // MARK: The account's identity

  /// Nil while nobody is signed in.
  package var storedIdentity: String? {
    Files.smallText(identity).flatMap { $0.isEmpty ? nil : $0 }
  }

  /// Programs read it without asking the daemon: an account is signed in from when it is there
  /// until it is not.
  package func setIdentity(_ text: String?) throws(ControlError) {
    do {
      if let text {
        if storedIdentity != text { try Files.replace(identity, with: Array("\(text)\n".utf8)) }
      } else if Files.exists(identity) {
        try Files.remove(identity)
        try Files.synchronizeDirectory(path)
      }
    } catch {
      throw ControlError(.failed, "cannot write \"\(identity)\": \(error)")
    }
  }

  // MARK: Airplane mode

  package var isOffline: Bool { Files.exists(path + "/offline") }

  package func setOffline(_ offline: Bool) throws(ControlError) {
    do {
      if offline {
        try Files.replace(path + "/offline", with: [])
      } else {
        do { try Files.remove(path + "/offline") } catch .noSuchFileOrDirectory {}
        try Files.synchronizeDirectory(path)
      }
    } catch {
      throw ControlError(.failed, "cannot write \"\(path)/offline\": \(error)")
    }
  }
}
