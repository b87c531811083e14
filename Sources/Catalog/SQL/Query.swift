internal import GRDB
internal import GRDBSQLite
internal import Model

/// One statement's text and, once used, the statement itself. Belongs to one connection, and is
/// used under that connection's lock. It is done with the statement whenever a call returns.
final class Query {
  private let sql: String
  private var statement: OpaquePointer?

  init(_ sql: String) { self.sql = sql }

  deinit { sqlite3_finalize(statement) }

  private func prepared(_ connection: SQLConnection) throws -> OpaquePointer {
    if let statement { return statement }
    try connection.checkOpen()
    var made: OpaquePointer?
    let code = sqlite3_prepare_v3(
      connection.pointer, sql, -1, UInt32(SQLITE_PREPARE_PERSISTENT), &made, nil)
    guard code == SQLITE_OK, let made else { throw connection.failure(code, sql) }
    statement = made
    return made
  }

  /// Gives every row to `read`, until it gives false.
  private func step<each Argument: SQLArgument>(
    _ connection: SQLConnection, _ arguments: (repeat each Argument),
    _ read: (SQLRow) throws -> Bool
  ) throws {
    let statement = try prepared(connection)
    defer { sqlite3_reset(statement) }
    var index: Int32 = 0
    for argument in repeat each arguments {
      index += 1
      let code = argument.bind(to: statement, at: index)
      guard code == SQLITE_OK else { throw connection.failure(code, sql) }
    }
    while true {
      switch sqlite3_step(statement) {
      case SQLITE_ROW: guard try read(SQLRow(statement: statement)) else { return }
      case SQLITE_DONE: return
      case let code: throw connection.failure(code, sql)
      }
    }
  }

  func run<each Argument: SQLArgument>(
    _ connection: SQLConnection, _ arguments: repeat each Argument
  ) throws {
    try step(connection, (repeat each arguments)) { _ in true }
  }

  /// For a statement with places for the arguments of so many rows.
  func run<Row, each Argument: SQLArgument>(
    _ connection: SQLConnection, rows: some Collection<Row>,
    _ arguments: (Row) -> (repeat each Argument)
  ) throws {
    let statement = try prepared(connection)
    defer {
      sqlite3_reset(statement)
      // Records of many chunks are large, and the next use may be long after.
      sqlite3_clear_bindings(statement)
    }
    var index: Int32 = 0
    for row in rows {
      let ofRow = arguments(row)
      for argument in repeat each ofRow {
        index += 1
        let code = argument.bind(to: statement, at: index)
        guard code == SQLITE_OK else { throw connection.failure(code, sql) }
      }
    }
    let code = sqlite3_step(statement)
    guard code == SQLITE_DONE else { throw connection.failure(code, sql) }
  }

  func first<each Argument: SQLArgument, Value>(
    _ connection: SQLConnection, _ arguments: repeat each Argument,
    read: (SQLRow) throws -> Value
  ) throws -> Value? {
    var result: Value?
    try step(connection, (repeat each arguments)) { row in
      result = try read(row)
      return false
    }
    return result
  }

  /// Whether a row satisfies `condition`; looks no further than the first that does.
  func find<each Argument: SQLArgument>(
    _ connection: SQLConnection, _ arguments: repeat each Argument,
    where condition: (SQLRow) throws -> Bool
  ) throws -> Bool {
    var isFound = false
    try step(connection, (repeat each arguments)) { row in
      isFound = try condition(row)
      return !isFound
    }
    return isFound
  }

  func all<each Argument: SQLArgument, Value>(
    _ connection: SQLConnection, _ arguments: repeat each Argument,
    read: (SQLRow) throws -> Value
  ) throws -> [Value] {
    var result: [Value] = []
    try step(connection, (repeat each arguments)) { row in
      result.append(try read(row))
      return true
    }
    return result
  }
}

/// A row, while it is being read.
struct SQLRow {
  let statement: OpaquePointer

  func integer(_ column: Int) -> Int64 { sqlite3_column_int64(statement, Int32(column)) }

  func unsigned(_ column: Int) -> UInt64 { UInt64(bitPattern: integer(column)) }

  func small<Value: FixedWidthInteger>(_ column: Int) -> Value {
    Value(truncatingIfNeeded: integer(column))
  }

  func number(_ column: Int) -> InodeNumber { InodeNumber(unsigned(column)) }

  func time(_ column: Int) -> Timestamp { Timestamp(nanoseconds: integer(column)) }

  func text(_ column: Int) -> String {
    sqlite3_column_text(statement, Int32(column)).map { String(cString: $0) } ?? ""
  }

  func isNull(_ column: Int) -> Bool {
    sqlite3_column_type(statement, Int32(column)) == SQLITE_NULL
  }

  private func buffer(_ column: Int) -> UnsafeRawBufferPointer {
    // In this order: the conversion to a blob may change the length.
    let start = sqlite3_column_blob(statement, Int32(column))
    let count = sqlite3_column_bytes(statement, Int32(column))
    return UnsafeRawBufferPointer(start: start, count: start == nil ? 0 : Int(count))
  }

  /// Nil for NULL.
  func bytes(_ column: Int) -> [UInt8]? { isNull(column) ? nil : [UInt8](buffer(column)) }

  /// The empty value for NULL.
  func blob(_ column: Int) -> [UInt8] { [UInt8](buffer(column)) }

  func identifier<Kind>(_ column: Int) throws -> Identifier<Kind> {
    guard let result: Identifier<Kind> = optionalIdentifier(column) else {
      throw CatalogDamage("an identity does not have 16 bytes")
    }
    return result
  }

  func optionalIdentifier<Kind>(_ column: Int) -> Identifier<Kind>? {
    let bytes = buffer(column)
    guard bytes.count == 16 else { return nil }
    return Identifier<Kind>(
      high: UInt64(bigEndian: bytes.loadUnaligned(as: UInt64.self)),
      low: UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self)))
  }

  func name(_ column: Int) throws -> ItemName {
    do throws(ItemName.Invalid) {
      return try ItemName(blob(column))
    } catch {
      throw CatalogDamage("an entry's name is not allowed")
    }
  }
}

extension InodeNumber {
  var column: Int64 { Int64(bitPattern: rawValue) }
}

extension UInt64 {
  var column: Int64 { Int64(bitPattern: self) }
}

/// A row that no version of this program writes. EIO to whoever asked for it.
struct CatalogDamage: Error {
  let reason: String

  init(_ reason: String) { self.reason = reason }
}
