public import Foundation

/// A file, a directory or a symbolic link in memory; a document's content where that is a package.
///
/// What is on the disk is read when it is asked for, and what did not change since it was read is
/// not written again, so that it is not uploaded again either. A regular file's content and a
/// link's destination never change: another child takes the place of one that is to change.
///
/// Of one thread at a time. Foundation on Linux does not have it. Source: Apple's documentation of
/// `FileWrapper`; the iCloud Design Guide, "Design for Network Transfer Efficiency".
open class FileWrapper {
  /// How to read.
  public struct ReadingOptions: OptionSet, Sendable {
    public let rawValue: UInt
    public init(rawValue: UInt) { self.rawValue = rawValue }

    /// Contents are read now, not when they are asked for.
    public static let immediate = ReadingOptions(rawValue: 1 << 0)
    /// Contents are never mapped into memory. They are not here in any case.
    public static let withoutMapping = ReadingOptions(rawValue: 1 << 1)
  }

  /// How to write.
  public struct WritingOptions: OptionSet, Sendable {
    public let rawValue: UInt
    public init(rawValue: UInt) { self.rawValue = rawValue }

    /// Each file is the old one or the new one at any time, and a directory that is new appears as
    /// a whole. Of a directory that is there the files change one after the other, when all of them
    /// are on the disk: what keeps others from seeing that is a claim for writing.
    public static let atomic = WritingOptions(rawValue: 1 << 0)
    /// The wrapper, and those in it, take the names that they were written to.
    public static let withNameUpdating = WritingOptions(rawValue: 1 << 1)
  }

  enum Kind {
    /// The content, if it is read already.
    case file(Data?)
    case directory([String: FileWrapper])
    case link(URL)
  }

  /// What is on the disk, and what was there when it was read or written.
  struct Source {
    let url: URL
    let stamp: FileStamp
  }

  var kind: Kind
  var source: Source?

  /// What the parent is to call it, if nobody else in it has that name.
  open var preferredFilename: String?
  /// What it was called on the disk when it was read or written.
  open internal(set) var filename: String?
  /// As `FileManager` gives them, when it was read.
  open var fileAttributes: [String: Any] = [:]

  // MARK: Making

  /// What is at `url`. Reads names and attributes of all that is in a directory, and contents when
  /// they are asked for. Throws where nothing is, or what is there cannot be read, or is no file,
  /// directory or symbolic link.
  public init(url: URL, options: ReadingOptions = []) throws {
    kind = .file(nil)
    try read(from: url, options: options)
  }

  /// A directory. Names are those of the dictionary.
  public init(directoryWithFileWrappers children: [String: FileWrapper]) {
    kind = .directory(children)
    for (name, child) in children where child.preferredFilename == nil {
      child.preferredFilename = name
    }
  }

  /// A file.
  public init(regularFileWithContents contents: Data) { kind = .file(contents) }

  /// A symbolic link, whose destination may be relative to the directory that it is written to.
  public init(symbolicLinkWithDestinationURL url: URL) { kind = .link(url) }

  // MARK: What it is

  /// A directory.
  open var isDirectory: Bool { if case .directory = kind { true } else { false } }
  /// A file.
  open var isRegularFile: Bool { if case .file = kind { true } else { false } }
  /// A symbolic link.
  open var isSymbolicLink: Bool { if case .link = kind { true } else { false } }

  /// A file's content; nil of what is no file, or cannot be read, or changed on the disk since the
  /// wrapper was made: a content that does not belong to the others is none.
  open var regularFileContents: Data? {
    guard case .file(let data) = kind else { return nil }
    if let data { return data }
    guard let source, let data = try? Data(contentsOf: source.url),
      FileStamp(source.url) == source.stamp
    else { return nil }
    kind = .file(data)
    return data
  }

  /// Where a symbolic link leads; nil of all else.
  open var symbolicLinkDestinationURL: URL? { if case .link(let url) = kind { url } else { nil } }

  /// What is in a directory, by name; nil of all else.
  open var fileWrappers: [String: FileWrapper]? {
    if case .directory(let children) = kind { children } else { nil }
  }

  // MARK: Children

  /// Puts a wrapper into the directory, and gives the name that it has there: the preferred one,
  /// with a number before its extension where that is taken. The child has to have a preferred
  /// name.
  @discardableResult
  open func addFileWrapper(_ child: FileWrapper) -> String {
    guard case .directory(var children) = kind else {
      preconditionFailure("only a directory contains file wrappers")
    }
    guard let preferred = child.preferredFilename, !preferred.isEmpty, !preferred.contains("/")
    else { preconditionFailure("the added file wrapper has no preferredFilename") }
    if let name = keyForChildFileWrapper(child) { return name }
    var name = preferred
    var number = 1
    while children[name] != nil {
      number += 1
      let url = URL(fileURLWithPath: preferred)
      let stem = url.deletingPathExtension().lastPathComponent
      name =
        url.pathExtension.isEmpty ? "\(stem) \(number)" : "\(stem) \(number).\(url.pathExtension)"
    }
    children[name] = child
    kind = .directory(children)
    return name
  }

  /// Puts a new file into the directory, and gives its name there.
  @discardableResult
  open func addRegularFile(withContents data: Data, preferredFilename: String) -> String {
    let child = FileWrapper(regularFileWithContents: data)
    child.preferredFilename = preferredFilename
    return addFileWrapper(child)
  }

  /// Takes a wrapper out of the directory; nothing happens if it is not in it.
  open func removeFileWrapper(_ child: FileWrapper) {
    guard case .directory(var children) = kind, let name = keyForChildFileWrapper(child) else {
      return
    }
    children[name] = nil
    kind = .directory(children)
  }

  /// The name that a wrapper has in the directory; nil if it is not in it.
  open func keyForChildFileWrapper(_ child: FileWrapper) -> String? {
    guard case .directory(let children) = kind else { return nil }
    return children.first { $0.value === child }?.key
  }
}
