internal import ControlProtocol
internal import Foundation
internal import Glibc

/// URLs and the bytes of paths.
extension URL {
  /// As the kernel has it.
  var pathBytes: PathBytes {
    withUnsafeFileSystemRepresentation { pointer in
      guard let pointer else { return PathBytes(path) }
      return PathBytes(Array(UnsafeRawBufferPointer(start: pointer, count: strlen(pointer))))
    }
  }

  init(_ path: PathBytes, isDirectory: Bool) {
    self = (path.bytes + [0]).withUnsafeBufferPointer { buffer in
      buffer.withMemoryRebound(to: CChar.self) { pointer in
        guard let start = pointer.baseAddress else { return URL(fileURLWithPath: "/") }
        return URL(
          fileURLWithFileSystemRepresentation: start, isDirectory: isDirectory, relativeTo: nil)
      }
    }
  }

  /// Whether something is there, a dangling link included; downloads nothing.
  var isThere: Bool {
    withUnsafeFileSystemRepresentation { pointer in
      var result = stat()
      return pointer.map { lstat($0, &result) == 0 } ?? false
    }
  }
}
