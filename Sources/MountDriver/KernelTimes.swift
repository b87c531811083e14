internal import Glibc
internal import Model

extension timespec {
  init(_ time: Timestamp) {
    let parts = time.parts
    self.init(tv_sec: Int(parts.seconds), tv_nsec: Int(parts.nanoseconds))
  }
}
