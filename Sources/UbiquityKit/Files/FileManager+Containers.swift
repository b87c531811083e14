internal import ControlProtocol
internal import DaemonClient
public import Foundation
internal import Platform
internal import SystemPackage

extension FileManager {
  /// The directory of a ubiquity container, mounted and ready to be written to; nil when nobody is
  /// signed in, and whenever it cannot be had:
  /// ``Foundation/FileManager/ubiquityContainerURL(forIdentifier:)`` says why.
  ///
  /// Nil as the identifier is the first of ``UbiquityEntitlements/ubiquityContainerIdentifiers``. A
  /// container that the account does not have is made; it has one directory, `Documents`. One that
  /// is mounted anywhere by this user's daemon is used where it is; else it is mounted at
  /// `mounts/IDENTIFIER` in the state directory, and stays so when the program ends.
  ///
  /// It may start the daemon and ask the backend: not on the main thread. A container that is on
  /// this device is had offline too.
  ///
  /// Source: iCloud Design Guide, "Prepare Your App to Use iCloud" and Listing 1-5.
  public func url(forUbiquityContainerIdentifier identifier: String?) -> URL? {
    try? ContainerMounting.url(identifier)
  }

  /// As ``Foundation/FileManager/url(forUbiquityContainerIdentifier:)``, without blocking the
  /// caller's thread, and with the reason.
  ///
  /// Throws `CocoaError`: `ubiquitousFileUbiquityServerNotAvailable` when the container is not on
  /// this device and the backend cannot be reached, `fileReadNoPermission` when nobody is signed
  /// in, `fileReadInvalidFileName` for what is no container's name.
  public func ubiquityContainerURL(forIdentifier identifier: String?) async throws -> URL {
    try await ItemCalls.onThread { try ContainerMounting.url(identifier) }
  }
}

/// Finds where a container is mounted, and mounts it.
private enum ContainerMounting {
  private static let turn = Lock(())

  static func url(_ identifier: String?) throws(CocoaError) -> URL {
    guard let id = identifier ?? UbiquityEntitlements.ubiquityContainerIdentifiers.first else {
      throw UbiquityErrors.cocoa(
        .fileReadInvalidFileName,
        "no container identifier: pass one, or set UbiquityEntitlements or UBIQUITYFS_CONTAINERS",
        at: nil)
    }
    let service = Service.shared
    guard IdentityMonitor.identity(state: service.stateDirectory) != nil else {
      throw UbiquityErrors.cocoa(
        .fileReadNoPermission, "not signed in; run `ubiquityfs account sign-in`", at: nil)
    }
    return try turn.withLock { _ throws(CocoaError) in
      do throws(ControlError) {
        return URL(fileURLWithPath: try mountpoint(of: id, service), isDirectory: true)
      } catch {
        guard error.status != .usage else {
          throw UbiquityErrors.cocoa(.fileReadInvalidFileName, error.message, at: nil)
        }
        throw UbiquityErrors.cocoa(error, .reading, at: nil)
      }
    }
  }

  private static func mountpoint(of id: String, _ service: Service) throws(ControlError) -> String {
    // Two programs that ask at the same time both find the mount of the one that was first.
    for _ in 0..<3 {
      let connection = try service.connection()
      let mounts = try connection.callAndWait(Methods.Status.self, Nothing()).mounts
      if let there = mounts.first(where: { $0.container == id }) { return there.mountpoint }
      let place = try place(service) + "/" + id
      do throws(ControlError) {
        return try connection.callAndWait(
          Methods.Mount.self,
          MountRequest(
            container: id, mountpoint: PathBytes(place), options: [], makesDirectory: true)
        ).mountpoint
      } catch {
        guard error.status == .busy else { throw error }
      }
    }
    throw ControlError(
      .busy,
      "cannot mount \(id) at \"\(service.stateDirectory)/mounts/\(id)\": the directory is in use")
  }

  private static func place(_ service: Service) throws(ControlError) -> String {
    let path = URL(fileURLWithPath: service.stateDirectory).path + "/mounts"
    do throws(Errno) {
      try Files.makeDirectories(path)
      return String(decoding: try ItemLocator.resolveLocation(Array(path.utf8)), as: UTF8.self)
    } catch {
      throw ControlError(.failed, "cannot create \"\(path)\": \(error)")
    }
  }
}
