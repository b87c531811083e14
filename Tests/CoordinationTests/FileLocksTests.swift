import Platform
import Testing

@Suite struct FileLocksTests {
  @Test("locks of one file system are read from the table of the kernel")
  func theTableIsRead() {
    let table = """
      1: POSIX  ADVISORY  WRITE 3568 00:2f:129 0 EOF
      1: -> POSIX  ADVISORY  READ 3569 00:2f:129 0 9
      2: FLOCK  ADVISORY  READ 3570 00:2f:130 0 EOF
      3: OFDLCK ADVISORY  WRITE -1 00:2f:131 4 9
      4: LEASE  ACTIVE    READ 3571 00:30:132 0 EOF
      5: POSIX  ADVISORY  WRITE 3572 08:2f:133 0 EOF
      """
    let locks = FileLocks.parse(table, major: 0, minor: 0x2f)
    #expect(locks == FileLocks(inodes: [129, 130, 131], processes: [3568, 3569, 3570]))
    #expect(FileLocks.parse(table, major: 8, minor: 0x2f).inodes == [133])
  }

  @Test(
    "lines that name no file are passed over",
    arguments: [
      "", "\n", "1:", "1: POSIX ADVISORY WRITE 3568",
      "1: POSIX  ADVISORY  WRITE 3568 <none>:0 0 EOF",
      "1: POSIX  ADVISORY  WRITE x 00:2f:129 0 EOF",
      "1: POSIX  ADVISORY  WRITE 3568 00:2f:-1 0 EOF",
      "1: POSIX  ADVISORY  WRITE 3568 00:zz:129 0 EOF",
    ])
  func otherLinesArePassedOver(_ line: String) {
    #expect(FileLocks.parse(line, major: 0, minor: 0x2f) == FileLocks())
  }
}
