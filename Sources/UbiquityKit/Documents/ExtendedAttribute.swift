internal import CLinux
internal import Foundation
internal import Glibc

/// Extended attributes of files, and of directories. Links are not followed.
enum ExtendedAttribute {
  /// Nil where there is none.
  static func bytes(_ name: String, of url: URL) -> [UInt8]? {
    url.withUnsafeFileSystemRepresentation { path -> [UInt8]? in
      guard let path else { return nil }
      let length = linux_lgetxattr(path, name, nil, 0)
      guard length >= 0 else { return nil }
      var value = [UInt8](repeating: 0, count: Int(length))
      let count = value.withUnsafeMutableBytes {
        linux_lgetxattr(path, name, $0.baseAddress, $0.count)
      }
      return count >= 0 ? Array(value.prefix(Int(count))) : nil
    }
  }

  static func text(_ name: String, of url: URL) -> String? {
    bytes(name, of: url).map { String(decoding: $0, as: UTF8.self) }
  }

  /// The user's own: those that are to be kept when a new file takes an old one's place.
  static func names(of url: URL) -> [String] {
    url.withUnsafeFileSystemRepresentation { path -> [String] in
      guard let path else { return [] }
      let length = linux_llistxattr(path, nil, 0)
      guard length > 0 else { return [] }
      var list = [CChar](repeating: 0, count: Int(length))
      let count = linux_llistxattr(path, &list, list.count)
      guard count > 0 else { return [] }
      return list.prefix(Int(count)).split(separator: 0)
        .map { String(decoding: $0.map { UInt8(bitPattern: $0) }, as: UTF8.self) }
        .filter { $0.hasPrefix("user.") && !$0.hasPrefix("user.ubiquity.") }
    }
  }

  static func set(_ name: String, to value: [UInt8], of url: URL) throws {
    let code = url.withUnsafeFileSystemRepresentation { path in
      path.map { linux_lsetxattr($0, name, value, value.count, 0) } ?? -1
    }
    guard code == 0 else { throw DiskError.current(url) }
  }

  /// That there was none is no error.
  static func remove(_ name: String, of url: URL) throws {
    let code = url.withUnsafeFileSystemRepresentation { path in
      path.map { linux_lremovexattr($0, name) } ?? -1
    }
    guard code == 0 || errno == ENODATA else { throw DiskError.current(url) }
  }
}
