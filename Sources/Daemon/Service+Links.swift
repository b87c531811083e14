internal import Catalog
internal import ControlProtocol
internal import Coordination
internal import Model

extension DaemonService {
  private static let maximumLinks = 40

  /// Where a symbolic link leads, through further links, as long as that is in a mount of this
  /// daemon; the item itself if it is none. Nothing outside of the mounts is looked at: a program
  /// could keep the daemon waiting there. Source: NSFileCoordinator.ReadingOptions,
  /// resolvesSymbolicLink; path_resolution(7).
  func resolved(_ reference: ItemReference) throws(ControlError) -> ItemReference {
    func failure(_ reason: String) -> ControlError {
      ControlError(.notFound, "cannot access \"\(reference.shown)\": \(reason)")
    }
    func parts(_ bytes: [UInt8]) -> [[UInt8]] {
      bytes.split(separator: 0x2F).map { Array($0) }.filter { $0 != [0x2E] }
    }
    let mounts = (account?.sessions ?? []).compactMap { session in
      session.mountpoint.map { (session: session, path: parts(Array($0.utf8))) }
    }
    var done = parts(reference.mountpoint.bytes)
    var rest = parts(reference.path.bytes)
    var links = 0
    while !rest.isEmpty {
      let name = rest.removeFirst()
      guard name != [0x2E, 0x2E] else {
        if !done.isEmpty { done.removeLast() }
        continue
      }
      done.append(name)
      // The deepest of the mounts around it.
      guard
        let mount = mounts.filter({ done.count > $0.path.count && done.starts(with: $0.path) })
          .max(by: { $0.path.count < $1.path.count })
      else { continue }
      var number = InodeNumber.root
      var target: [UInt8]?
      do {
        for part in done[mount.path.count...] {
          guard let found = try mount.session.catalog.lookup(try ItemName(part), in: number) else {
            // What is not there is no link; whoever claims it is told so, or makes it.
            guard rest.isEmpty else { throw failure("no such file or directory") }
            break
          }
          number = found.number
          target = found.kind == .symbolicLink ? found.target : nil
        }
      } catch let error as ControlError {
        throw error
      } catch {
        throw failure("no such file or directory")
      }
      guard let target else { continue }
      links += 1
      guard links <= Self.maximumLinks else { throw failure("too many levels of symbolic links") }
      done = target.first == 0x2F ? [] : Array(done.dropLast())
      rest = parts(target) + rest
    }
    guard
      let mount = mounts.filter({ done.starts(with: $0.path) })
        .max(by: { $0.path.count < $1.path.count })
    else { throw failure("the symbolic link leads out of the mounts") }
    return ItemReference(
      mountpoint: PathBytes(mount.session.mountpoint ?? ""),
      path: PathBytes(Array(done[mount.path.count...].joined(separator: [0x2F]))),
      shown: reference.shown)
  }
}
