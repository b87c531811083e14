internal import CLinux

/// Gives the system back what was freed and lies about. Takes a moment: for when nothing else is to be done.
package func returnFreedMemory() { linux_malloc_trim() }

/// Keeps what is freed from lying about: few arenas, so that one thread's memory serves another, and
/// large blocks of their own, which go back to the system at once. Before threads are made.
package func keepMemorySmall() { linux_malloc_limit(2, 1 << 20) }
