internal import FuseKernel
internal import Synchronization

/// Which programs look at the files that they list, and which only want the names.
///
/// With READDIRPLUS the kernel makes an inode of every entry that comes with attributes, which
/// costs it several times what the name alone does: well spent for `ls -l`, wasted for `find
/// -name`. It does not say which it is. So a thread that lists its first directory gets the names
/// alone; if it then looks one of them up, that and every further directory come with attributes.
///
/// Only a guess about speed: threads that share a place here, or a number that is used again, do no
/// harm.
final class ListingHabits: Sendable {
  private static let places = 256
  /// `thread << 32 | directory << 1 | looks`, the directory cut to 31 bits.
  private let words = (0..<ListingHabits.places).map { _ in Word() }

  private final class Word: Sendable {
    let value = Atomic<UInt64>(0)
  }

  private static func encode(_ thread: Int32, _ directory: UInt64) -> UInt64 {
    UInt64(UInt32(bitPattern: thread)) << 32 | (directory & 0x7FFF_FFFF) << 1
  }

  private func word(_ thread: Int32) -> Word { words[Int(thread.magnitude) % Self.places] }

  /// A thread begins to list a directory; gives whether it is one that looks.
  func begins(_ thread: Int32, _ directory: UInt64) -> Bool {
    let word = word(thread)
    let seen = word.value.load(ordering: .relaxed)
    let looks = seen >> 32 == UInt64(UInt32(bitPattern: thread)) && seen & 1 == 1
    word.value.store(
      Self.encode(thread, directory) | (looks ? 1 : 0), ordering: .relaxed)
    return looks
  }

  /// A thread looked up something that the directory has.
  func looked(_ thread: Int32, in directory: UInt64) {
    let word = word(thread)
    let listed = Self.encode(thread, directory)
    if word.value.load(ordering: .relaxed) == listed {
      word.value.store(listed | 1, ordering: .relaxed)
    }
  }
}
