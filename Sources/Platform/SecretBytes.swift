internal import Glibc

/// An account's secret in memory pages of its own.
///
/// The pages are locked against swapping as far as `RLIMIT_MEMLOCK` allows, are omitted from core
/// dumps and child processes, and are overwritten on deinitialization. Sources: mlock(2),
/// madvise(2). Safe from any thread: the bytes are constant.
package final class SecretBytes: @unchecked Sendable {
  private let base: UnsafeMutableRawPointer
  private let size: Int
  package let count: Int

  /// `fill` writes up to `capacity` bytes and gives their number.
  package init<Failure: Error>(
    capacity: Int, _ fill: (UnsafeMutableRawBufferPointer) throws(Failure) -> Int
  ) throws(Failure) {
    let page = Int(getpagesize())
    size = max(1, (capacity + page - 1) / page) * page
    guard let mapped = mmap(nil, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
      mapped != MAP_FAILED
    else { fatalError("cannot allocate memory for a secret") }
    base = mapped
    // Without the permission the secret is as safe as other memory.
    _ = mlock(base, size)
    _ = madvise(base, size, MADV_DONTDUMP)
    _ = madvise(base, size, MADV_DONTFORK)
    do throws(Failure) {
      count = try fill(UnsafeMutableRawBufferPointer(start: base, count: capacity))
    } catch {
      Self.release(base, size)
      throw error
    }
  }

  /// `bytes` stays as it is.
  package convenience init(copying bytes: some Collection<UInt8>) {
    self.init(capacity: bytes.count) { buffer in
      buffer.copyBytes(from: bytes)
      return bytes.count
    }
  }

  deinit { Self.release(base, size) }

  private static func release(_ base: UnsafeMutableRawPointer, _ size: Int) {
    explicit_bzero(base, size)
    munmap(base, size)
  }

  package func withBytes<Value, Failure: Error>(
    _ body: (UnsafeRawBufferPointer) throws(Failure) -> Value
  ) throws(Failure) -> Value {
    try body(UnsafeRawBufferPointer(start: base, count: count))
  }

  /// Calls `body` with a copy in an array, which is overwritten afterwards unless `body` keeps it.
  package func withArray<Value, Failure: Error>(
    _ body: ([UInt8]) throws(Failure) -> Value
  ) throws(Failure) -> Value {
    var copy = withBytes { Array($0) }
    defer { Self.wipe(&copy) }
    return try body(copy)
  }

  package static func wipe(_ bytes: inout [UInt8]) {
    bytes.withUnsafeMutableBytes { buffer in
      if let base = buffer.baseAddress { explicit_bzero(base, buffer.count) }
    }
  }
}

extension SecretBytes: Equatable {
  package static func == (one: SecretBytes, other: SecretBytes) -> Bool {
    one.withBytes { first in
      other.withBytes { second in
        first.count == second.count
          && zip(first, second).reduce(UInt8(0)) { $0 | ($1.0 ^ $1.1) } == 0
      }
    }
  }
}

/// Limits of this process's core dumps.
package enum CoreDump {
  /// From now on core dumps omit all memory that this process wrote. Where the system applies
  /// `RLIMIT_CORE`, no dump is written. Source: core(5).
  package static func omitMemory() {
    var limit = rlimit()
    let resource = __rlimit_resource_t(RLIMIT_CORE.rawValue)
    if getrlimit(resource, &limit) == 0 {
      limit.rlim_cur = 0
      setrlimit(resource, &limit)
    }
    let file = open("/proc/self/coredump_filter", O_WRONLY | O_CLOEXEC)
    guard file >= 0 else { return }
    _ = write(file, "0", 1)
    close(file)
  }
}
