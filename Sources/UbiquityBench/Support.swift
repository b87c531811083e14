internal import FoundationEssentials
internal import Glibc

/// Why measuring stopped.
struct Failure: Error, CustomStringConvertible {
  let description: String

  init(_ description: String) { self.description = description }

  /// What a system call just said.
  static func system(_ call: StaticString, _ path: String = "") -> Failure {
    let reason = String(cString: strerror(errno))
    return Failure("\(call)\(path.isEmpty ? "" : " \(path)"): \(reason)")
  }
}

/// Says how far it is; at once, wherever it goes.
func say(_ text: String) {
  print(text)
  fflush(nil)
}

/// Wall time of `body`, in seconds.
func seconds(_ body: () throws -> Void) rethrows -> Double {
  func now() -> Double {
    var time = timespec()
    clock_gettime(CLOCK_MONOTONIC, &time)
    return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
  }
  let start = now()
  try body()
  return now() - start
}

/// The same numbers in every run.
struct Numbers {
  private var state: UInt64

  init(seed: UInt64) { state = seed }

  /// SplitMix64.
  mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var value = state
    value = (value ^ (value >> 30)) &* 0xBF58_476D_1CE4_E5B9
    value = (value ^ (value >> 27)) &* 0x94D0_49BB_1331_11EB
    return value ^ (value >> 31)
  }

  mutating func next(below bound: Int) -> Int { Int(next() % UInt64(bound)) }
}

/// Memory that system calls read from and write to.
final class Buffer: @unchecked Sendable {
  let bytes: UnsafeMutableRawBufferPointer
  var start: UnsafeMutableRawPointer { bytes.baseAddress.unsafelyUnwrapped }

  /// Filled with numbers, so that nothing below can take it for a hole or compress it away.
  init(count: Int, seed: UInt64 = 1) {
    bytes = .allocate(byteCount: (count + 7) & ~7, alignment: 4096)
    var numbers = Numbers(seed: seed)
    for offset in stride(from: 0, to: bytes.count, by: 8) {
      bytes.storeBytes(of: numbers.next(), toByteOffset: offset, as: UInt64.self)
    }
  }

  deinit { bytes.deallocate() }
}

/// Paths as C strings in one block, made before the clock starts.
final class Paths: @unchecked Sendable {
  private let text: UnsafeMutablePointer<CChar>
  private let offsets: [Int]
  var count: Int { offsets.count }

  init(_ paths: [String]) {
    var offsets: [Int] = []
    var total = 0
    for path in paths {
      offsets.append(total)
      total += path.utf8.count + 1
    }
    self.offsets = offsets
    text = .allocate(capacity: max(1, total))
    for (path, offset) in zip(paths, offsets) { strcpy(text + offset, path) }
  }

  deinit { text.deallocate() }

  subscript(index: Int) -> UnsafePointer<CChar> { UnsafePointer(text + offsets[index]) }
}

enum Bytes {
  static func write(_ bytes: [UInt8], to path: String) throws {
    let file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o644)
    guard file >= 0 else { throw Failure.system("open", path) }
    defer { close(file) }
    var rest = bytes[...]
    while !rest.isEmpty {
      let count = rest.withUnsafeBytes { Glibc.write(file, $0.baseAddress, $0.count) }
      guard count > 0 else { throw Failure.system("write", path) }
      rest = rest.dropFirst(count)
    }
  }

  static func read(_ path: String) throws -> [UInt8] {
    let file = open(path, O_RDONLY | O_CLOEXEC)
    guard file >= 0 else { throw Failure.system("open", path) }
    defer { close(file) }
    return try read(file)
  }

  /// To the end.
  static func read(_ file: Int32) throws -> [UInt8] {
    var result: [UInt8] = []
    var piece = [UInt8](repeating: 0, count: 1 << 16)
    while true {
      let count = Glibc.read(file, &piece, piece.count)
      if count < 0 && errno == EINTR { continue }
      guard count >= 0 else { throw Failure.system("read") }
      if count == 0 { return result }
      result += piece[..<count]
    }
  }
}

enum JSON {
  static func encoded(_ value: some Encodable) throws -> [UInt8] {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
    return Array(try encoder.encode(value)) + [0x0A]
  }

  static func decoded<Value: Decodable>(_ type: Value.Type, _ bytes: [UInt8]) throws -> Value {
    try JSONDecoder().decode(type, from: Data(bytes))
  }
}

extension Double {
  /// With `places` digits after the point.
  func text(_ places: Int) -> String {
    guard isFinite else { return "-" }
    var factor = 1
    for _ in 0..<places { factor *= 10 }
    let value = Int((self.magnitude * Double(factor)).rounded())
    let sign = self < 0 && value != 0 ? "-" : ""
    guard places > 0 else { return "\(sign)\(value)" }
    let digits = String(value % factor)
    return "\(sign)\(value / factor)."
      + String(repeating: "0", count: places - digits.count) + digits
  }
}
