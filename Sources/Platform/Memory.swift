internal import CLinux

/// The bytes that were freed and not given back to the system, about; 0 where that is not known.
package func freedMemory() -> Int { linux_malloc_slack() }

/// Gives the system back what was freed and lies about. Takes a moment: for when nothing else is to
/// be done.
package func returnFreedMemory() { linux_malloc_trim() }

/// Keeps what is freed from lying about: few arenas, so that one thread's memory serves another,
/// and large blocks of their own, which go back to the system at once. A chunk of a content is not
/// large in this sense, nor are a few of them: while contents go up or come, each would be mapped,
/// cleared and unmapped anew. `returnFreedMemory` gives them back at rest. Before threads are made.
package func keepMemorySmall() { linux_malloc_limit(2, 2 << 20, 8 << 20) }

/// Lets large blocks be made of memory that was freed before: for large contents on their way,
/// whose blocks would else be mapped, cleared and unmapped each time. While there is one it holds
/// for the whole process; after the last it is as `keepMemorySmall` wants it. Any thread.
package final class LargeBlockUse: Sendable {
  private static let count = Lock(0)

  package init() {
    Self.count.withLock { count in
      if count == 0 { linux_malloc_limit(2, 16 << 20, 64 << 20) }
      count += 1
    }
  }

  deinit {
    Self.count.withLock { count in
      count -= 1
      if count == 0 { keepMemorySmall() }
    }
  }
}

/// Unmaps the program's code. More than half of it is used only while a process starts or does a
/// rare large job. The rest comes back from the page cache with a few hundred page faults.
package func unmapUnusedCode() { linux_unmap_program_pages() }
