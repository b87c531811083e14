internal import GRDBSQLite
internal import Model

/// What can stand for a `?` in a statement. SQLite copies bytes and text, so that nothing has to
/// outlive the call.
protocol SQLArgument {
  func bind(to statement: OpaquePointer, at index: Int32) -> Int32
}

/// SQLITE_TRANSIENT, a macro that is not imported.
nonisolated(unsafe) private let copied = unsafeBitCast(-1, to: sqlite3_destructor_type.self)

extension Int64: SQLArgument {
  func bind(to statement: OpaquePointer, at index: Int32) -> Int32 {
    sqlite3_bind_int64(statement, index, self)
  }
}

extension String: SQLArgument {
  func bind(to statement: OpaquePointer, at index: Int32) -> Int32 {
    var text = self
    return text.withUTF8 { utf8 in
      utf8.withMemoryRebound(to: CChar.self) { bytes in
        sqlite3_bind_text(
          statement, index, bytes.baseAddress, Int32(bytes.count), copied)
      }
    }
  }
}

extension [UInt8]: SQLArgument {
  func bind(to statement: OpaquePointer, at index: Int32) -> Int32 {
    guard !isEmpty else { return sqlite3_bind_zeroblob(statement, index, 0) }
    return withUnsafeBytes { bytes in
      sqlite3_bind_blob(statement, index, bytes.baseAddress, Int32(bytes.count), copied)
    }
  }
}

extension ItemName: SQLArgument {
  func bind(to statement: OpaquePointer, at index: Int32) -> Int32 {
    bytes.bind(to: statement, at: index)
  }
}

extension Identifier: SQLArgument {
  func bind(to statement: OpaquePointer, at index: Int32) -> Int32 {
    withUnsafeTemporaryAllocation(of: UInt64.self, capacity: 2) { words in
      words[0] = high.bigEndian
      words[1] = low.bigEndian
      return sqlite3_bind_blob(statement, index, words.baseAddress, 16, copied)
    }
  }
}

extension Optional: SQLArgument where Wrapped: SQLArgument {
  func bind(to statement: OpaquePointer, at index: Int32) -> Int32 {
    guard let self else { return sqlite3_bind_null(statement, index) }
    return self.bind(to: statement, at: index)
  }
}
