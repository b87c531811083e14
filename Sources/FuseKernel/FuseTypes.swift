package import Glibc

/// Who asks. Of a delayed write from the page cache it says nothing.
package struct FuseCaller: Sendable {
  package let user: UInt32
  package let group: UInt32
  package let process: Int32
  /// Of a request that makes something.
  package let umask: UInt32
  package let request: FuseRequestNumber

  package init(
    user: UInt32, group: UInt32, process: Int32 = 0, umask: UInt32 = 0,
    request: FuseRequestNumber = FuseRequestNumber()
  ) {
    self.user = user
    self.group = group
    self.process = process
    self.umask = umask
    self.request = request
  }
}

/// The attributes that stat(2) gives.
package struct FuseAttributes: Sendable {
  package var node: UInt64
  /// With the type bits.
  package var mode: UInt32
  package var linkCount: UInt64
  package var user: UInt32
  package var group: UInt32
  package var device: UInt64
  package var size: UInt64
  /// Of 512 bytes.
  package var blocks: UInt64
  package var accessed: timespec
  package var modified: timespec
  package var changed: timespec
  /// Of birth; nil where it is not known. Only an answer with the extended status carries it.
  package var created: timespec?

  package init(
    node: UInt64, mode: UInt32, linkCount: UInt64 = 0, user: UInt32 = 0, group: UInt32 = 0,
    device: UInt64 = 0, size: UInt64 = 0, blocks: UInt64 = 0,
    accessed: timespec = timespec(), modified: timespec = timespec(),
    changed: timespec = timespec(), created: timespec? = nil
  ) {
    self.node = node
    self.mode = mode
    self.linkCount = linkCount
    self.user = user
    self.group = group
    self.device = device
    self.size = size
    self.blocks = blocks
    self.accessed = accessed
    self.modified = modified
    self.changed = changed
    self.created = created
  }
}

/// What statvfs(3) tells; counts are of `blockSize`.
package struct FuseStatistics: Sendable {
  package var blockSize: UInt64
  package var blocks: UInt64
  package var blocksFree: UInt64
  package var blocksAvailable: UInt64
  package var files: UInt64
  package var filesFree: UInt64
  package var nameLength: UInt64

  package init(
    blockSize: UInt64, blocks: UInt64, blocksFree: UInt64, blocksAvailable: UInt64,
    files: UInt64, filesFree: UInt64, nameLength: UInt64
  ) {
    self.blockSize = blockSize
    self.blocks = blocks
    self.blocksFree = blocksFree
    self.blocksAvailable = blocksAvailable
    self.files = files
    self.filesFree = filesFree
    self.nameLength = nameLength
  }
}

/// A name's node and attributes, and how long the kernel may believe them.
package struct FuseEntry {
  package var node: UInt64
  package var attributes: FuseAttributes
  /// Seconds.
  package var attributeTimeout: Double
  package var nameTimeout: Double

  package init(
    node: UInt64, attributes: FuseAttributes, attributeTimeout: Double, nameTimeout: Double
  ) {
    self.node = node
    self.attributes = attributes
    self.attributeTimeout = attributeTimeout
    self.nameTimeout = nameTimeout
  }
}

/// What an open answers.
package struct FuseOpened {
  package var handle: UInt64
  /// Pages that the kernel has of the file are still right. Of a directory: so are cached entries.
  package var keepsCache = false
  /// Of a directory: the kernel may cache its entries.
  package var cachesEntries = false
  /// Closing it needs no FLUSH.
  package var needsNoFlush = false
  /// The file of `FuseBackingFiles` that the kernel reads and writes by itself. All opens of a node
  /// that are there at one time name the same, or none does: else the kernel fails them with EIO.
  package var backing: Int32?
  /// With `backing`: reads and writes are requests, and only mappings go to the file.
  package var asksForIO = false
  /// Without `backing`: past the page cache. Such an open stands beside opens of every other sort.
  package var isDirect = false

  package init(handle: UInt64) { self.handle = handle }
}

/// Which attributes to change. `nil` leaves as is.
package struct FuseAttributeChanges: Sendable {
  package enum Time: Sendable {
    case now
    case at(timespec)
  }

  package var mode: UInt32?
  package var user: UInt32?
  package var group: UInt32?
  package var size: Int64?
  package var accessed: Time?
  package var modified: Time?
}

/// How a connection was set up, once the kernel and we agreed.
package struct FuseConnection: Sendable {
  package let protocolMajor: UInt32
  package let protocolMinor: UInt32
  package let maximumWrite: UInt32
  package let maximumReadAhead: UInt32
  package let granted: FuseGrants
}
