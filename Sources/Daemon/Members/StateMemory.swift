internal import Glibc
internal import Logging
internal import Platform
internal import RemoteStore
internal import SystemPackage

/// What a state directory remembers of its account. The files stay when the account is signed out:
/// they say themselves which account they are of.
struct StateMemory: AccountMemory {
  let state: StateDirectory
  let logger: Logger

  /// Of a file; an account with a thousand containers has less than a megabyte.
  private static let limit = 256 << 20

  func load(_ part: AccountMemoryPart) -> [UInt8]? {
    let path = state.memory(part.rawValue)
    do throws(Errno) {
      let file = try OpenFile.open(path, flags: O_RDONLY | O_NOFOLLOW)
      let size = try file.length()
      guard size <= UInt64(Self.limit) else { throw Errno.fileTooLarge }
      return try file.read(count: Int(size), at: 0)
    } catch .noSuchFileOrDirectory {
      return nil
    } catch {
      logger.warning("cannot read \"\(path)\": \(error)")
      return nil
    }
  }

  func save(_ part: AccountMemoryPart, _ bytes: [UInt8]) {
    let path = state.memory(part.rawValue)
    do throws(Errno) { try Files.replace(path, with: bytes) } catch {
      logger.warning("cannot write \"\(path)\": \(error)")
    }
  }
}
