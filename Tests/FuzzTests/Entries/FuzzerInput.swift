import Glibc

/// The functions that `Tests/Fuzz/fuzz.c` calls. libFuzzer has one thread.
private nonisolated(unsafe) var chosen: FuzzTarget?

/// Whether there is a target of this name.
@_cdecl("ubiquityfs_fuzz_choose")
func chooseTarget(_ name: UnsafePointer<CChar>) -> Bool {
  chosen = FuzzTarget.named(String(cString: name))
  return chosen != nil
}

/// Ends the process where a property does not hold: libFuzzer keeps the input.
@_cdecl("ubiquityfs_fuzz_run")
func runTarget(_ bytes: UnsafePointer<UInt8>?, _ count: Int) {
  do {
    try chosen?.run(Array(UnsafeBufferPointer(start: bytes, count: count)))
  } catch {
    fatalError("\(error)")
  }
}

/// Writes the seeds of the chosen target, one after the other in the form of a corpus file.
@_cdecl("ubiquityfs_fuzz_seeds")
func writeSeeds() -> Bool {
  guard let seeds = try? chosen?.seeds() else { return false }
  let bytes = Corpus.pack(seeds)
  return bytes.withUnsafeBytes { write(STDOUT_FILENO, $0.baseAddress, $0.count) } == bytes.count
}

/// The names of all targets with their limits, a line each.
@_cdecl("ubiquityfs_fuzz_list")
func listTargets() {
  for target in FuzzTarget.all { print(target.name, target.limit) }
}
