package import Catalog
internal import Coordination
package import Model
internal import Platform

/// SystemPackage has a type of this name too.
typealias Inode = Catalog.Inode

/// An inode and what its content takes on the disk: what `stat` tells.
package struct FileStatus: Sendable {
  package let inode: Catalog.Inode
  /// Of 512 bytes; 0 of a directory. A file of which bytes are missing has at least one: GNU tar
  /// takes a file without blocks for one hole, and archives zeros without asking for anything.
  package let blocks: UInt64
  /// The kernel may be writing to it without a word, through a mapping even without knowing itself:
  /// what is told of it now need not be so a moment later.
  package let isChanging: Bool
  /// It was asked for by the name it has, and not by one that is like it.
  package var isNamedExactly = true

  package init(inode: Catalog.Inode, blocks: UInt64, isChanging: Bool = false) {
    self.inode = inode
    let isMissing = inode.kind == .file && inode.content == .remote && inode.size > 0
    self.blocks = isMissing ? max(1, blocks) : blocks
    self.isChanging = isChanging
  }

  /// `st_size`.
  package var size: UInt64 {
    switch inode.kind {
    case .file: inode.size
    case .directory: 4096
    case .symbolicLink: UInt64(inode.target.count)
    case .fifo, .socket, .characterDevice, .blockDevice: 0
    }
  }
}

/// What the kernel calls a request.
package struct RequestIdentity: Hashable, Sendable {
  /// 0 where it is not known.
  package let value: UInt64
  /// An earlier daemon had the request, and may have done it.
  package let isResent: Bool

  package init(value: UInt64, isResent: Bool) {
    self.value = value
    self.isResent = isResent
  }

  package static let none = RequestIdentity(value: 0, isResent: false)
}

/// Who asks.
package struct Caller: Sendable {
  package var user: UInt32
  package var group: UInt32
  /// The thread that asks, for its supplementary groups; 0 where that is not known.
  package var process: Int32
  /// Of what it makes.
  package var umask: UInt16
  package var request: RequestIdentity

  package init(
    user: UInt32, group: UInt32, process: Int32 = 0, umask: UInt16 = 0,
    request: RequestIdentity = .none
  ) {
    self.user = user
    self.group = group
    self.process = process
    self.umask = umask
    self.request = request
  }

  /// Whether it is in the group, or need not be (CAP_FSETID).
  func isMember(of group: UInt32) -> Bool {
    user == 0 || self.group == group
      || process > 0 && Processes.supplementaryGroups(of: process).contains(group)
  }

  /// May keep set-user-ID bits on a file that it writes (CAP_FSETID).
  var keepsPrivileges: Bool { user == 0 }
}

/// A name in a directory, or `.` or `..`.
package struct ListedName: Sendable {
  package let name: [UInt8]
  package let inode: Catalog.Inode
  /// Where listing goes on after it.
  package let offset: UInt64
  /// It is `.` or `..`, which do not count as looked up.
  package let isDot: Bool
}

/// A `ListedName` for who wants to know no more than what kind of thing has the name.
package struct BareName: Sendable {
  package let name: [UInt8]
  package let number: InodeNumber
  package let kind: ItemKind
  package let offset: UInt64
  package let isDot: Bool
}

/// What `setattr` changes; nil leaves as is.
package struct StatusChanges: Sendable {
  package enum Time: Sendable {
    case now
    case at(Timestamp)
  }

  package var mode: UInt16?
  package var owner: UInt32?
  package var group: UInt32?
  package var size: UInt64?
  package var accessed: Time?
  package var modified: Time?

  var isEmpty: Bool {
    mode == nil && owner == nil && group == nil && size == nil && accessed == nil
      && modified == nil
  }

  package init(
    mode: UInt16? = nil, owner: UInt32? = nil, group: UInt32? = nil, size: UInt64? = nil,
    accessed: Time? = nil, modified: Time? = nil
  ) {
    self.mode = mode
    self.owner = owner
    self.group = group
    self.size = size
    self.accessed = accessed
    self.modified = modified
  }
}

/// Either a result, or what has to become local before the call can be made again.
///
/// No call of the file system waits: whoever calls decides how to (a mount parks the reply).
package enum Step<Value: Sendable>: Sendable {
  case done(Value)
  case wait(ContentWait)
}

/// Bytes of a placeholder that a call needs.
package struct ContentWait: Sendable, Equatable {
  package let number: Catalog.InodeNumber
  package let range: Range<UInt64>
  /// What is likely to be asked for next; nobody waits for it.
  var ahead: Range<UInt64>?
  let kind: DownloadCause.Kind
}
