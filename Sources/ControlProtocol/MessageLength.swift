/// How long something is at most as JSON in a message, which is one line of limited length
/// (`LineBuffer`).
package enum MessageLength {
  /// With the quotes and the name of a member. A control character takes six letters; a path that
  /// is no UTF-8 is hexadecimal.
  package static func of(_ bytes: some Sequence<UInt8>) -> Int {
    bytes.reduce(40) { $0 + ($1 < 0x20 ? 6 : 2) }
  }
}
