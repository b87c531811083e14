import Platform
import Testing

@testable import Catalog

@Suite struct RedoFileTests {
  @Test(
    "a journal file whose records have the last number there is ends the replay, not the process")
  func lastNumber() throws {
    let directory = try TemporaryDirectory()
    let file = try RedoFile(path: directory.path + "/redo", capacity: RedoJournal.capacity)
    try file.restart(from: .max)
    try file.append([1, 2, 3], sequence: .max, presumed: 0)
    #expect(try file.read().isEmpty)
  }

  @Test("records are read as they were appended")
  func records() throws {
    let directory = try TemporaryDirectory()
    let file = try RedoFile(path: directory.path + "/redo", capacity: RedoJournal.capacity)
    try file.restart(from: 5)
    try file.append([1, 2, 3], sequence: 5, presumed: 2)
    try file.append([], sequence: 6, presumed: 3)
    let records = try file.read()
    #expect(records.map(\.sequence) == [5, 6])
    #expect(records.map(\.presumed) == [2, 3])
    #expect(records.map { Array($0.payload) } == [[1, 2, 3], []])
  }
}
