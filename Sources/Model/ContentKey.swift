/// The name of a content file: one generation of one item's bytes.
///
/// A generation is never used twice, so what a key names is never replaced by something else.
package struct ContentKey: Hashable, Comparable, Sendable, CustomStringConvertible {
  package let item: ItemID
  package let generation: UInt64

  package init(item: ItemID, generation: UInt64) {
    self.item = item
    self.generation = generation
  }

  /// `<item hex>.<generation hex>`.
  package var description: String { "\(item).\(String(generation, radix: 16))" }

  /// Reads what `description` gives; nil for anything else.
  package init?(_ text: some StringProtocol) {
    let parts = text.split(separator: ".", omittingEmptySubsequences: false)
    guard parts.count == 2, let item = ItemID(hex: parts[0]),
      let generation = UInt64(parts[1], radix: 16)
    else { return nil }
    self.init(item: item, generation: generation)
    guard description == text else { return nil }
  }

  package static func < (left: Self, right: Self) -> Bool {
    left.item == right.item ? left.generation < right.generation : left.item < right.item
  }
}
