internal import Foundation
internal import GRDB
internal import Model

/// One statement's text and, once used, the statement itself. Belongs to one connection.
///
/// A query must not be run again while `each` goes over its rows; `all` and `first` are done with
/// the statement when they return.
final class Query {
  private let sql: String
  private var statement: Statement?

  init(_ sql: String) { self.sql = sql }

  private func prepared(
    _ db: Database, _ arguments: [(any DatabaseValueConvertible)?]
  ) throws -> Statement {
    let result: Statement
    if let statement {
      result = statement
    } else {
      result = try db.makeStatement(sql: sql)
      statement = result
    }
    if !arguments.isEmpty { result.setUncheckedArguments(StatementArguments(arguments)) }
    return result
  }

  func run(_ db: Database, _ arguments: (any DatabaseValueConvertible)?...) throws {
    try prepared(db, arguments).execute()
  }

  func first<Value>(
    _ db: Database, _ arguments: (any DatabaseValueConvertible)?..., read: (Row) throws -> Value
  ) throws -> Value? {
    let cursor = try Row.fetchCursor(prepared(db, arguments))
    guard let row = try cursor.next() else { return nil }
    return try read(row)
  }

  func all<Value>(
    _ db: Database, _ arguments: (any DatabaseValueConvertible)?..., read: (Row) throws -> Value
  ) throws -> [Value] {
    let cursor = try Row.fetchCursor(prepared(db, arguments))
    var result: [Value] = []
    while let row = try cursor.next() { result.append(try read(row)) }
    return result
  }
}

extension Identifier {
  /// As a column's value: 16 bytes.
  var data: Data { Data(bytes) }
}

extension ItemName {
  var data: Data { Data(bytes) }
}

extension InodeNumber {
  var column: Int64 { Int64(bitPattern: rawValue) }
}

extension UInt64 {
  var column: Int64 { Int64(bitPattern: self) }
}

extension Row {
  func integer(_ column: Int) -> Int64 { self[column] }

  func unsigned(_ column: Int) -> UInt64 { UInt64(bitPattern: self[column]) }

  func small<Value: FixedWidthInteger>(_ column: Int) -> Value {
    Value(truncatingIfNeeded: self[column] as Int64)
  }

  func number(_ column: Int) -> InodeNumber { InodeNumber(unsigned(column)) }

  func time(_ column: Int) -> Timestamp { Timestamp(nanoseconds: self[column]) }

  /// Nil for NULL.
  func bytes(_ column: Int) throws -> [UInt8]? {
    try withUnsafeData(atIndex: column) { data in data.map { [UInt8]($0) } }
  }

  /// The empty value for NULL: SQLite keeps no pointer for an empty blob.
  func blob(_ column: Int) throws -> [UInt8] { try bytes(column) ?? [] }

  func identifier<Kind>(_ column: Int) throws -> Identifier<Kind> {
    guard let result: Identifier<Kind> = try optionalIdentifier(column) else {
      throw CatalogDamage("an identity does not have 16 bytes")
    }
    return result
  }

  func optionalIdentifier<Kind>(_ column: Int) throws -> Identifier<Kind>? {
    try withUnsafeData(atIndex: column) { data -> Identifier<Kind>? in
      guard let data, data.count == 16 else { return nil }
      return data.withUnsafeBytes { bytes in
        Identifier<Kind>(
          high: UInt64(bigEndian: bytes.loadUnaligned(as: UInt64.self)),
          low: UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self)))
      }
    }
  }

  func name(_ column: Int) throws -> ItemName {
    do throws(ItemName.Invalid) {
      return try ItemName(try rawName(column))
    } catch {
      throw CatalogDamage("an entry's name is not allowed")
    }
  }

  private func rawName(_ column: Int) throws(ItemName.Invalid) -> [UInt8] {
    (try? blob(column)) ?? []
  }
}

/// A row that no version of this program writes. EIO to whoever asked for it.
struct CatalogDamage: Error {
  let reason: String

  init(_ reason: String) { self.reason = reason }
}
