public import Foundation
internal import Glibc

/// Reading from the disk and writing to it.
extension FileWrapper {
  // MARK: Reading

  /// Whether what is at `url` is what was read or written there: contents are not compared, nor
  /// read.
  public func matchesContents(of url: URL) -> Bool {
    guard let source, let stamp = FileStamp(url) else { return false }
    switch kind {
    case .file, .link: return stamp == source.stamp
    case .directory(let children):
      guard stamp.isDirectory,
        let names = try? FileManager.default.contentsOfDirectory(atPath: url.path),
        Set(names) == Set(children.keys)
      else { return false }
      return children.allSatisfy { name, child in
        child.matchesContents(of: url.appendingPathComponent(name))
      }
    }
  }

  /// Takes what is at `url` instead of what was here.
  public func read(from url: URL, options: ReadingOptions = []) throws {
    guard let stamp = FileStamp(url) else { throw UbiquityErrors.missing(url) }
    filename = url.lastPathComponent
    preferredFilename = preferredFilename ?? filename
    source = Source(url: url, stamp: stamp)
    let attributes = (try? FileManager.default.attributesOfItem(atPath: url.path)) ?? [:]
    fileAttributes = attributes.reduce(into: [:]) { $0[$1.key.rawValue] = $1.value }
    if stamp.isRegularFile {
      kind = .file(options.contains(.immediate) ? try Data(contentsOf: url) : nil)
    } else if stamp.isSymbolicLink {
      let path = try FileManager.default.destinationOfSymbolicLink(atPath: url.path)
      kind = .link(URL(fileURLWithPath: path, relativeTo: url.deletingLastPathComponent()))
    } else if stamp.isDirectory {
      var children: [String: FileWrapper] = [:]
      for name in try FileManager.default.contentsOfDirectory(atPath: url.path) {
        children[name] = try FileWrapper(url: url.appendingPathComponent(name), options: options)
      }
      kind = .directory(children)
    } else {
      throw UbiquityErrors.cocoa(
        .fileReadUnknown, "\"\(url.path)\" is not a file, directory or symbolic link", at: url)
    }
  }

  // MARK: Writing

  /// Writes what differs from what is at `url`, and removes from a directory what is not in the
  /// wrapper. `originalContentsURL`, where the wrapper's files were read, is where contents that
  /// were never read are taken from; nil: where they were read from.
  ///
  /// Throws what the disk reports; files that were not changed by then are the old ones. A content
  /// that changed on the disk since the wrapper was made, and was never read, is an error.
  public func write(
    to url: URL, options: WritingOptions = [], originalContentsURL: URL? = nil
  ) throws {
    _ = try writeChanges(to: url, options: options, original: originalContentsURL)
  }

  /// Gives whether something had to be written.
  func writeChanges(to url: URL, options: WritingOptions, original: URL?) throws -> Bool {
    let change = try planned(at: url, original: original)
    guard !change.isEmpty else {
      settle(at: url, options)
      return false
    }
    let staging = SafeWriting.temporary(beside: url)
    do {
      try FileManager.default.createDirectory(at: staging, withIntermediateDirectories: false)
      try change.perform(staging)
    } catch {
      try? FileManager.default.removeItem(at: staging)
      throw error
    }
    try? FileManager.default.removeItem(at: staging)
    settle(at: url, options)
    return true
  }

  private func planned(at url: URL, original: URL?) throws -> WrapperChange {
    var change = WrapperChange()
    try plan(at: url, original: original, &change)
    return change
  }

  private func plan(at url: URL, original: URL?, _ change: inout WrapperChange) throws {
    let there = FileStamp(url)
    switch kind {
    case .file(let data):
      if let there, there.isRegularFile {
        if let source, source.stamp == there { return }
        if let data, there.size == data.count, (try? Data(contentsOf: url)) == data { return }
      }
      if there?.isDirectory == true { change.removed.append(url) }
      change.files.append((url, try data ?? contents(original)))
    case .link(let destination):
      let path = destination.relativePath
      if there?.isSymbolicLink == true,
        (try? FileManager.default.destinationOfSymbolicLink(atPath: url.path)) == path
      {
        return
      }
      if there?.isDirectory == true { change.removed.append(url) }
      change.links.append((url, path))
    case .directory(let children):
      var names: [String] = []
      if let there, there.isDirectory {
        names = try FileManager.default.contentsOfDirectory(atPath: url.path)
      } else {
        if there != nil { change.removed.append(url) }
        change.directories.append(url)
      }
      for (name, child) in children.sorted(by: { $0.key < $1.key }) {
        try child.plan(
          at: url.appendingPathComponent(name),
          original: child.filename.flatMap { original?.appendingPathComponent($0) }, &change)
      }
      // What others keep here that stays on this device is not the document's.
      for name in names where children[name] == nil && !name.hasSuffix(".nosync") {
        change.ended.append(url.appendingPathComponent(name))
      }
    }
  }

  /// A content that was never read.
  private func contents(_ original: URL?) throws -> Data {
    if let data = regularFileContents { return data }
    if let original, let source, FileStamp(original) == source.stamp {
      return try Data(contentsOf: original)
    }
    throw UbiquityErrors.cocoa(
      .fileReadUnknown,
      "\(source?.url.path ?? filename ?? "a file") changed on disk after it was opened",
      at: source?.url)
  }

  /// What is on the disk now is what was written.
  private func settle(at url: URL, _ options: WritingOptions) {
    if let stamp = FileStamp(url) { source = Source(url: url, stamp: stamp) }
    if options.contains(.withNameUpdating) {
      filename = url.lastPathComponent
      preferredFilename = filename
    }
    for (name, child) in fileWrappers ?? [:] {
      child.settle(at: url.appendingPathComponent(name), options)
      child.filename = name
    }
  }
}

/// What is to be done on the disk so that it has what a wrapper has.
private struct WrapperChange {
  /// In the way of what is to be there.
  var removed: [URL] = []
  /// Those that are to be there, parents first.
  var directories: [URL] = []
  var files: [(url: URL, data: Data)] = []
  var links: [(url: URL, path: String)] = []
  /// Not in the wrapper any more.
  var ended: [URL] = []

  var isEmpty: Bool {
    removed.isEmpty && directories.isEmpty && files.isEmpty && links.isEmpty && ended.isEmpty
  }

  /// All contents go to the disk first, in `staging`, which is removed by the caller; then the
  /// names change.
  func perform(_ staging: URL) throws {
    // A directory that is new appears with all that is in it.
    let top = directories.first.flatMap { FileStamp($0) == nil ? $0 : nil }
    func place(_ url: URL) -> URL {
      guard let top, url.path == top.path || url.path.hasPrefix(top.path + "/") else { return url }
      return staging.appendingPathComponent("whole" + url.path.dropFirst(top.path.count))
    }
    var moves: [(from: URL, to: URL)] = []
    for url in directories where place(url) != url {
      try FileManager.default.createDirectory(at: place(url), withIntermediateDirectories: false)
    }
    for (index, file) in files.enumerated() {
      let placed = place(file.url)
      if placed != file.url {
        try SafeWriting.create(placed, with: file.data)
      } else {
        let staged = staging.appendingPathComponent("\(index)")
        try SafeWriting.stage(staged, file.data, like: file.url)
        moves.append((staged, file.url))
      }
    }
    for (index, link) in links.enumerated() {
      let placed = place(link.url)
      let staged = placed != link.url ? placed : staging.appendingPathComponent("link\(index)")
      try FileManager.default.createSymbolicLink(
        atPath: staged.path, withDestinationPath: link.path)
      if placed == link.url { moves.append((staged, link.url)) }
    }
    for url in removed where place(url) == url { try FileManager.default.removeItem(at: url) }
    if let top { try SafeWriting.rename(staging.appendingPathComponent("whole"), to: top) }
    for url in directories where place(url) == url {
      try FileManager.default.createDirectory(at: url, withIntermediateDirectories: false)
    }
    for (from, to) in moves { try SafeWriting.rename(from, to: to) }
    for url in ended { try FileManager.default.removeItem(at: url) }
    let changed = moves.map(\.to) + directories + ended
    for directory in Set(changed.map { $0.deletingLastPathComponent() })
    where FileStamp(directory) != nil { try SafeWriting.synchronize(directory) }
  }
}
