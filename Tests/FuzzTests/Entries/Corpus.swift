/// The inputs of a target in one file: of each its length as four bytes, the highest first, and its
/// bytes. Thousands of files of ten bytes would each take a block and a line in every diff.
enum Corpus {
  static func pack(_ inputs: [[UInt8]]) -> [UInt8] {
    inputs.reduce(into: []) { result, input in
      withUnsafeBytes(of: UInt32(input.count).bigEndian) { result.append(contentsOf: $0) }
      result += input
    }
  }

  /// Nil for a file that ends within an input.
  static func unpack(_ bytes: [UInt8]) -> [[UInt8]]? {
    var result: [[UInt8]] = []
    var rest = bytes[...]
    while !rest.isEmpty {
      let count = rest.prefix(4).reduce(0) { $0 << 8 | Int($1) }
      guard rest.count >= 4 + count else { return nil }
      rest = rest.dropFirst(4)
      result.append(Array(rest.prefix(count)))
      rest = rest.dropFirst(count)
    }
    return result
  }
}
