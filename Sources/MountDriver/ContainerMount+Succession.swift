internal import FileSystem
internal import FuseKernel
package import Model
package import Platform
internal import SystemPackage

/// A mount that goes on with another daemon.
extension ContainerMount {
  /// Has the connection kept, where another daemon could go on with it. The record says everything
  /// before anybody keeps the mount.
  func keepForSuccessor(_ made: FuseSession) {
    guard let record = fileSystem.record, let guards, let connection = made.connection,
      let handshake = made.handshake, let device = made.duplicateDevice()
    else { return }
    let description = MountDescription(
      container: fileSystem.coordinator.container, mountpoint: path, options: options,
      device: connection.mount.device, handshake: handshake)
    do throws(Errno) {
      try record.setText(description.text)
    } catch {
      return logger(
        "the mount at \"\(path)\" will not outlive this daemon: cannot write its record: \(error)")
    }
    guards.keeps(connection, KeptMount(device: device, record: record.file))
  }

  /// Goes on with a mount that an earlier daemon made, in place of `start`. `start` is a time
  /// before the catalog was brought up to date with the content files. What the kernel asked that
  /// daemon and was not answered it asks again.
  package func adopt(
    _ device: OpenFile, _ description: MountDescription, start: Timestamp
  ) throws(MountError) {
    guard let record = fileSystem.record else {
      throw MountError.failed(path, detail: "the mount has no record")
    }
    do throws(FuseStartFailure) {
      let (made, requests) = try makeSession()
      try made.adopt(device)
      begin(made, requests)
      try made.resume(description.handshake)
      echo.stage.setFormer(thread: record.echo)
      let lost: Int
      do throws(Errno) {
        lost = try fileSystem.restore(record, start: start) + requests.versions.restore(record)
      } catch {
        made.abandon()
        throw FuseStartFailure(detail: "cannot restore the open files", errno: error)
      }
      if lost > 0 { logger("\"\(path)\": cannot restore \(lost) open files") }
      keepForSuccessor(made)
      try made.runResent()
      refresh(made)
    } catch {
      throw failure(error)
    }
  }

  /// The kernel forgets what it believes of files, since an earlier daemon may not have told it of
  /// a change. It has been told to ask for names already.
  private func refresh(_ made: FuseSession) {
    let numbers = fileSystem.inheritedInodes()
    let catalog = fileSystem.coordinator.catalog
    _ = startThread {
      for start in stride(from: 0, to: numbers.count, by: 256) {
        let part = numbers[start..<min(start + 256, numbers.count)]
        made.notifier.send(
          part.map { number in
            (try? catalog.inode(number))?.kind == .directory
              ? .contents(number.rawValue) : .attributes(number.rawValue)
          })
        made.notifier.flush(milliseconds: 10_000)
      }
    }
  }

  /// Serves no more and answers nothing that waits, for another daemon to go on. Returns when no
  /// request is being handled.
  package func quiesce() {
    echo.pause()
    session.withLock { $0 }?.quiesce()
  }
}
