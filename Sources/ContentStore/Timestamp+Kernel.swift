package import Glibc
package import Model

/// Times as the kernel has them.
extension Timestamp {
  package init(_ time: Glibc.timespec) {
    self.init(kernelSeconds: Int64(time.tv_sec), nanoseconds: Int64(time.tv_nsec))
  }

  package var timespec: Glibc.timespec {
    let parts = parts
    return Glibc.timespec(tv_sec: Int(parts.seconds), tv_nsec: Int(parts.nanoseconds))
  }
}
