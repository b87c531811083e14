internal import Foundation
internal import MetadataQueries

/// A condition on the attributes of items, for ``NSMetadataQuery``.
///
/// It stands for `NSPredicate`, which on Linux knows no format strings. The format is Apple's, as
/// far as it makes sense for items: comparisons with `== != < <= > >= LIKE BEGINSWITH ENDSWITH
/// CONTAINS IN BETWEEN`, `[c]` and `[d]`, `AND`, `OR`, `NOT`, and `%K` and `%@` for arguments. An
/// attribute is written as the value of its constant, as the constant's name, or by its short name,
/// as in `ubiquityfs query`. As in Spotlight, `==` takes `*` for any characters. `docs/queries.md`
/// has the grammar.
///
/// Source: Apple's Predicate Programming Guide, "Predicate Format String Syntax".
public struct MetadataPredicate: Hashable, Sendable, CustomStringConvertible {
  /// Why a format is none, and where.
  public struct FormatError: Error, Hashable, Sendable, CustomStringConvertible {
    /// For people, of several lines: the reason, the format, and a mark below the place.
    public let description: String
    /// In Unicode scalars from the format's start.
    public let offset: Int
  }

  let condition: QueryPredicate

  /// Parses a format. Arguments stand for `%K`, `%@`, `%d` and the like: `String`, numbers, `Bool`,
  /// `Date`, `URL`, nil, and arrays of these.
  ///
  /// A format that is wrong, or arguments that do not fit it, end the program, as with
  /// `NSPredicate`. What users write goes to ``init(parsing:arguments:)``.
  public init(format: String, _ arguments: Any?...) {
    do throws(FormatError) {
      try self.init(parsing: format, arguments: arguments)
    } catch {
      preconditionFailure(error.description)
    }
  }

  /// As ``init(format:_:)``, and throws what is wrong.
  public init(parsing format: String, arguments: [Any?] = []) throws(FormatError) {
    var converted: [PredicateArgument] = []
    for (index, argument) in arguments.enumerated() {
      guard let value = Self.argument(argument) else {
        throw FormatError(
          description:
            "argument \(index + 1) of the predicate \"\(format)\" has an unsupported type",
          offset: 0)
      }
      converted.append(value)
    }
    do throws(MetadataQueries.PredicateError) {
      condition = try QueryPredicate(format, arguments: converted)
    } catch {
      throw FormatError(description: error.description, offset: error.offset)
    }
  }

  /// What holds, or does not, for every item.
  public init(value: Bool) { condition = value ? .always : .never }

  /// The format of the same condition, with short names and without arguments.
  public var predicateFormat: String { condition.description }

  /// The same as ``predicateFormat``.
  public var description: String { predicateFormat }

  private static func argument(_ value: Any?) -> PredicateArgument? {
    if let list = value as? [Any] {
      var values: [MetadataValue] = []
      for element in list {
        guard let value = Self.value(element) else { return nil }
        values.append(value)
      }
      return .list(values)
    }
    guard let value else { return .value(.null) }
    return Self.value(value).map { .value($0) }
  }

  private static func value(_ value: Any) -> MetadataValue? {
    switch value {
    case let value as String: .text(value)
    case let value as Bool where !(value as Any is NSNumber): .flag(value)
    case let value as Date: MetadataValue(secondsSince1970: value.timeIntervalSince1970)
    case let value as URL: .text(value.isFileURL ? value.path : value.absoluteString)
    case let value as any BinaryInteger: .integer(Int64(clamping: value))
    case let value as any BinaryFloatingPoint: .number(Double(value))
    case let value as NSNumber: .number(value.doubleValue)
    default: nil
    }
  }
}
