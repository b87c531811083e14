internal import CLinux

/// Gives the system back what was freed and lies about. Takes a moment: for when nothing else is to be done.
package func returnFreedMemory() { linux_malloc_trim() }
