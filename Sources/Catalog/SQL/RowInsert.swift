/// Adds many new rows to one table. A statement that takes several rows costs less than as many
/// statements. Belongs to one connection, as `Query` does.
///
/// It must be used within an operation. After an error some rows may be there, and the operation's
/// savepoint takes them back: so SQLite needs no journal of the statement.
final class RowInsert {
  private static let rows = 16

  private let several: Query
  private let one: Query

  /// `table`: its name, with the columns. `row`: a place for each of them.
  init(_ table: String, row: String) {
    let rows = Array(repeating: row, count: Self.rows).joined(separator: ", ")
    several = Query("INSERT OR FAIL INTO \(table) VALUES \(rows)")
    one = Query("INSERT INTO \(table) VALUES \(row)")
  }

  func run<Row, each Argument: SQLArgument>(
    _ connection: SQLConnection, _ rows: ArraySlice<Row>,
    _ arguments: (Row) -> (repeat each Argument)
  ) throws {
    var left = rows
    while left.count >= Self.rows {
      try several.run(connection, rows: left.prefix(Self.rows), arguments)
      left = left.dropFirst(Self.rows)
    }
    for row in left { try one.run(connection, rows: CollectionOfOne(row), arguments) }
  }
}
