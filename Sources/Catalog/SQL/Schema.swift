internal import GRDB

/// The tables, by numbered migrations. `docs/catalog-format.md` says what they mean; a released
/// migration is never changed, only followed by another.
enum Schema {
  /// "ubiq": tells a catalog from another program's database.
  static let applicationID: Int64 = 0x7562_6971

  static var version: Int { migrations.count }

  static let migrations = [
    """
    CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
    CREATE TABLE inode (
      ino INTEGER PRIMARY KEY,
      item BLOB NOT NULL,
      detached INTEGER NOT NULL,
      kind INTEGER NOT NULL,
      mode INTEGER NOT NULL,
      uid INTEGER NOT NULL,
      gid INTEGER NOT NULL,
      rdev INTEGER NOT NULL,
      nlink INTEGER NOT NULL,
      size INTEGER NOT NULL,
      atime INTEGER NOT NULL,
      mtime INTEGER NOT NULL,
      ctime INTEGER NOT NULL,
      btime INTEGER NOT NULL,
      target BLOB,
      flags INTEGER NOT NULL,
      content INTEGER NOT NULL,
      generation INTEGER NOT NULL,
      version BLOB,
      blocks INTEGER NOT NULL,
      UNIQUE (item, detached)
    );
    CREATE INDEX inode_detached ON inode (ino) WHERE detached <> 0;
    CREATE TABLE entry (
      id INTEGER PRIMARY KEY,
      parent INTEGER NOT NULL,
      name BLOB NOT NULL,
      child INTEGER NOT NULL,
      UNIQUE (parent, name)
    );
    CREATE INDEX entry_parent ON entry (parent);
    CREATE INDEX entry_child ON entry (child);
    CREATE TABLE xattr (
      ino INTEGER NOT NULL, name TEXT NOT NULL, value BLOB NOT NULL, PRIMARY KEY (ino, name)
    ) WITHOUT ROWID;
    CREATE TABLE dirty (
      item BLOB PRIMARY KEY, stamp INTEGER NOT NULL, changed INTEGER NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE remote (item BLOB PRIMARY KEY, record BLOB, applied BLOB, same INTEGER NOT NULL);
    CREATE INDEX remote_differs ON remote (item) WHERE same = 0;
    CREATE TABLE remote_link (
      parent BLOB NOT NULL, name BLOB NOT NULL, item BLOB NOT NULL, PRIMARY KEY (parent, name)
    ) WITHOUT ROWID;
    CREATE TABLE conflicted (item BLOB PRIMARY KEY) WITHOUT ROWID;
    CREATE TABLE chunk (
      id BLOB PRIMARY KEY, pack BLOB NOT NULL, offset INTEGER NOT NULL, stored INTEGER NOT NULL,
      length INTEGER NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE upload (
      item BLOB PRIMARY KEY, generation INTEGER NOT NULL, size INTEGER NOT NULL,
      mtime INTEGER NOT NULL, manifest BLOB NOT NULL
    );
    CREATE TABLE shown (ino INTEGER PRIMARY KEY, record BLOB NOT NULL);
    CREATE TABLE open_write (ino INTEGER PRIMARY KEY, began INTEGER NOT NULL);
    """,
    """
    CREATE TABLE removed (
      item BLOB PRIMARY KEY, record BLOB NOT NULL, time INTEGER NOT NULL, device BLOB NOT NULL
    );
    """,
    """
    CREATE TABLE sent (
      id BLOB PRIMARY KEY, pack BLOB NOT NULL, offset INTEGER NOT NULL, stored INTEGER NOT NULL,
      length INTEGER NOT NULL, time INTEGER NOT NULL
    ) WITHOUT ROWID;
    """,
    """
    CREATE INDEX chunk_place ON chunk (pack, offset);
    CREATE TABLE pack (
      id BLOB PRIMARY KEY, bytes INTEGER NOT NULL, state INTEGER NOT NULL,
      condemned INTEGER NOT NULL, since INTEGER NOT NULL
    ) WITHOUT ROWID;
    INSERT INTO pack SELECT pack, SUM(stored), 0, 0, 0 FROM chunk GROUP BY pack;
    CREATE INDEX pack_condemned ON pack (id) WHERE state = 1;
    CREATE TABLE snapshot (
      sequence INTEGER PRIMARY KEY, bytes INTEGER NOT NULL, device BLOB NOT NULL,
      since INTEGER NOT NULL
    );
    CREATE TABLE peer (
      device BLOB PRIMARY KEY, sequence INTEGER NOT NULL, since INTEGER NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE stray (pack BLOB PRIMARY KEY, since INTEGER NOT NULL) WITHOUT ROWID;
    CREATE TABLE staged_item (
      item BLOB PRIMARY KEY, record BLOB NOT NULL, kind INTEGER NOT NULL, conflicted INTEGER NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE staged_link (
      parent BLOB NOT NULL, name BLOB NOT NULL, item BLOB NOT NULL, PRIMARY KEY (parent, name)
    ) WITHOUT ROWID;
    CREATE TABLE staged_chunk (
      id BLOB PRIMARY KEY, pack BLOB NOT NULL, offset INTEGER NOT NULL, stored INTEGER NOT NULL,
      length INTEGER NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE staged_removed (
      item BLOB PRIMARY KEY, record BLOB NOT NULL, time INTEGER NOT NULL, device BLOB NOT NULL
    );
    CREATE TABLE staged_pack (
      id BLOB PRIMARY KEY, bytes INTEGER NOT NULL, state INTEGER NOT NULL,
      condemned INTEGER NOT NULL
    ) WITHOUT ROWID;
    """,
    """
    CREATE TABLE sending (item BLOB PRIMARY KEY, record BLOB NOT NULL);
    """,
    """
    CREATE TABLE folded (sequence INTEGER PRIMARY KEY, hash BLOB NOT NULL);
    CREATE TABLE kept_version (
      item BLOB PRIMARY KEY, version BLOB NOT NULL, generation INTEGER NOT NULL,
      size INTEGER NOT NULL, mtime INTEGER NOT NULL, ctime INTEGER NOT NULL
    ) WITHOUT ROWID;
    """,
    """
    CREATE TABLE lost_chunk (
      pack BLOB NOT NULL, id BLOB NOT NULL, missing INTEGER NOT NULL, PRIMARY KEY (pack, id)
    ) WITHOUT ROWID;
    """,
    """
    CREATE TABLE kept_conflict (item BLOB PRIMARY KEY, record BLOB NOT NULL) WITHOUT ROWID;
    """,
    "ALTER TABLE kept_version ADD COLUMN parent BLOB",
  ]
}

/// Every statement that runs often, prepared once. A class: they are many, and to hand them on
/// would be to count a reference to each.
final class Queries {
  static let inodeColumns = """
    i.ino, i.item, i.kind, i.mode, i.uid, i.gid, i.rdev, i.nlink, i.size, i.atime, i.mtime, \
    i.ctime, i.btime, i.target, i.flags, i.content, i.generation, i.version, i.detached, i.blocks
    """

  let begin = Query("BEGIN IMMEDIATE")
  let commit = Query("COMMIT")
  let savepoint = Query("SAVEPOINT op")
  let release = Query("RELEASE op")
  let rollbackTo = Query("ROLLBACK TO op")

  let greatestNumbers = Query("SELECT (SELECT MAX(ino) FROM inode), (SELECT MAX(id) FROM entry)")
  let metaGet = Query("SELECT value FROM meta WHERE key = ?")
  let metaDelete = Query("DELETE FROM meta WHERE key = ?")
  let metaSet = Query("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)")

  let inode = Query("SELECT \(inodeColumns) FROM inode i WHERE i.ino = ?")
  let inodeOfItem = Query("SELECT ino FROM inode WHERE item = ? AND detached = 0")
  let inodesOfItem = Query("SELECT ino FROM inode WHERE item = ?")
  let setItem = Query("UPDATE inode SET item = ? WHERE ino = ?")
  /// Whatever else stands for an item does so no more.
  let vacateItem = Query(
    "UPDATE inode SET detached = ino WHERE item = ? AND detached = 0 AND ino <> ?")
  private static let inodeTable = """
    inode (ino, item, detached, kind, mode, uid, gid, rdev, nlink, size, atime, mtime, ctime, \
    btime, target, flags, content, generation, version, blocks)
    """
  private static let inodeRow = "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
  let insertInodes = RowInsert(inodeTable, row: inodeRow)
  let putInode = Query(
    """
    INSERT INTO \(inodeTable) VALUES \(inodeRow) \
    ON CONFLICT (ino) DO UPDATE SET item = excluded.item, detached = excluded.detached, \
    mode = excluded.mode, uid = excluded.uid, gid = excluded.gid, nlink = excluded.nlink, size = excluded.size, \
    atime = excluded.atime, mtime = excluded.mtime, ctime = excluded.ctime, \
    btime = excluded.btime, target = excluded.target, flags = excluded.flags, \
    content = excluded.content, generation = excluded.generation, version = excluded.version, \
    blocks = excluded.blocks
    """)
  let counts = Query(
    """
    SELECT COUNT(*), SUM(size * (kind = 1)), SUM(size * (kind = 1 AND content = 0)) \
    FROM inode WHERE flags & 8 = 0 AND ino <> 1
    """)
  let held = Query(
    """
    SELECT SUM(CASE WHEN blocks > 0 THEN blocks - 1 ELSE (size + 4095) / 4096 * 8 END) \
    FROM inode WHERE kind = 1 AND content = 0
    """)
  let heldPage = Query(
    """
    SELECT ino, kind = 1 AND content = 0, item, generation, size, atime, mtime, flags, version IS NULL, \
    blocks, nlink FROM inode WHERE ino > ? ORDER BY ino LIMIT ?
    """)
  let deleteInode = Query("DELETE FROM inode WHERE ino = ?")
  let orphans = Query("SELECT ino FROM inode WHERE detached <> 0 AND flags & 8 <> 0")
  let allInodes = Query(
    "SELECT \(inodeColumns) FROM inode i WHERE i.ino > ? ORDER BY i.ino LIMIT ?")

  let entry = Query("SELECT child, id FROM entry WHERE parent = ? AND name = ?")
  /// In whatever order moved and exchanged names are put, the rows they displace go.
  let putEntry = Query("INSERT OR REPLACE INTO entry (id, parent, name, child) VALUES (?, ?, ?, ?)")
  let insertEntries = RowInsert("entry (id, parent, name, child)", row: "(?, ?, ?, ?)")
  let retargetEntries = Query("UPDATE entry SET child = ? WHERE child = ?")
  let deleteEntry = Query("DELETE FROM entry WHERE parent = ? AND name = ?")
  let entryNames = Query("SELECT name FROM entry WHERE parent = ?")
  let links = Query("SELECT parent, name FROM entry WHERE child = ? ORDER BY id")
  let children = Query("SELECT name, child FROM entry WHERE parent = ? ORDER BY id")
  let readDirectory = Query(
    """
    SELECT e.id, e.name, \(inodeColumns) FROM entry e JOIN inode i ON i.ino = e.child \
    WHERE e.parent = ? AND e.id > ? ORDER BY e.id LIMIT ?
    """)
  let readNames = Query(
    """
    SELECT e.id, e.name, i.ino, i.kind FROM entry e JOIN inode i ON i.ino = e.child \
    WHERE e.parent = ? AND e.id > ? ORDER BY e.id LIMIT ?
    """)

  let attribute = Query("SELECT value FROM xattr WHERE ino = ? AND name = ?")
  let attributes = Query("SELECT name, value FROM xattr WHERE ino = ? ORDER BY name")
  let otherAttributes = Query(
    """
    SELECT COUNT(*), COALESCE(SUM(LENGTH(CAST(name AS BLOB)) + LENGTH(value)), 0) FROM xattr \
    WHERE ino = ? AND name <> ?
    """)
  let setAttribute = Query("INSERT OR REPLACE INTO xattr (ino, name, value) VALUES (?, ?, ?)")
  let removeAttribute = Query("DELETE FROM xattr WHERE ino = ? AND name = ?")
  let removeAttributes = Query("DELETE FROM xattr WHERE ino = ?")

  let stamp = Query("SELECT stamp FROM dirty WHERE item = ?")
  let setStamp = Query("INSERT OR REPLACE INTO dirty (item, stamp, changed) VALUES (?, ?, ?)")
  /// Dirty if the other devices know of the item, or may, else nothing to tell them.
  let setStampIfRemote = Query(
    """
    INSERT OR REPLACE INTO dirty (item, stamp, changed) \
    SELECT ?1, ?2, ?3 WHERE EXISTS (SELECT 1 FROM remote WHERE item = ?1) \
    OR EXISTS (SELECT 1 FROM sending WHERE item = ?1)
    """)
  let setSending = Query("INSERT OR REPLACE INTO sending (item, record) VALUES (?, ?)")
  let sending = Query("SELECT record FROM sending WHERE item = ?")
  let allSending = Query("SELECT item, record FROM sending ORDER BY item")
  let clearSending = Query("DELETE FROM sending")
  let clearStamp = Query("DELETE FROM dirty WHERE item = ?")
  let stampedAfter = Query("SELECT item FROM dirty WHERE stamp > ?")
  let dirtyMore = Query("SELECT COUNT(*) FROM (SELECT 1 FROM dirty LIMIT ?)")
  let anyRemoval = Query(
    """
    SELECT 1 FROM dirty d WHERE EXISTS (SELECT 1 FROM remote r WHERE r.item = d.item) \
    AND NOT EXISTS (SELECT 1 FROM inode i WHERE i.item = d.item AND i.detached = 0 \
    AND i.flags & 4 = 0) LIMIT 1
    """)
  let removedHere = Query(
    """
    SELECT d.item, d.stamp FROM dirty d JOIN remote r ON r.item = d.item AND r.same = 1 \
    WHERE d.item > ? AND NOT EXISTS (SELECT 1 FROM inode i WHERE i.item = d.item \
    AND i.detached = 0 AND i.flags & 4 = 0) ORDER BY d.item LIMIT ?
    """)
  let removedElsewhere = Query(
    """
    SELECT item FROM remote r WHERE same = 0 AND record IS NULL AND item > ? \
    AND NOT EXISTS (SELECT 1 FROM dirty d WHERE d.item = r.item) ORDER BY item LIMIT ?
    """)
  /// Of what `unsentFiles` gives none.
  let changedItems = Query(
    """
    SELECT i.item, i.ino FROM dirty d JOIN inode i ON i.item = d.item AND i.detached = 0 \
    WHERE i.ino > ? AND NOT (i.kind = 1 AND i.content = 0 AND i.version IS NULL \
    AND EXISTS (SELECT 1 FROM remote r WHERE r.item = d.item AND r.same = 1)) \
    ORDER BY i.ino LIMIT ?
    """)
  let unsentFiles = Query(
    """
    SELECT i.item FROM dirty d JOIN inode i ON i.item = d.item AND i.detached = 0 \
    JOIN remote r ON r.item = d.item AND r.same = 1 \
    WHERE i.kind = 1 AND i.content = 0 AND i.version IS NULL \
    ORDER BY \(TimeOrder.precedes("i.ctime", "?1")), i.size, i.item LIMIT ?2 OFFSET ?3
    """)
  let stampCount = Query("SELECT COUNT(*) FROM dirty")

  let remote = Query("SELECT record, applied, same FROM remote WHERE item = ?")
  let setRemote = Query(
    "INSERT OR REPLACE INTO remote (item, record, applied, same) VALUES (?, ?, ?, ?)")
  let remoteCount = Query("SELECT COUNT(*) FROM remote")
  /// From one directory to the next by the index, not over all that they hold.
  let filledDirectoryCount = Query(
    """
    WITH RECURSIVE filled (parent) AS (SELECT MIN(parent) FROM remote_link UNION ALL \
    SELECT (SELECT MIN(l.parent) FROM remote_link l WHERE l.parent > filled.parent) \
    FROM filled WHERE filled.parent IS NOT NULL) \
    SELECT COUNT(parent) FROM filled
    """)
  let deleteRemote = Query("DELETE FROM remote WHERE item = ?")
  let differing = Query(
    "SELECT item FROM dirty UNION SELECT item FROM remote WHERE same = 0 ORDER BY item")
  let differingAfter = Query(
    """
    SELECT item FROM dirty WHERE item > ?1 \
    UNION SELECT item FROM remote WHERE same = 0 AND item > ?1 ORDER BY item LIMIT ?2
    """)
  let remoteChild = Query("SELECT item FROM remote_link WHERE parent = ? AND name = ?")
  let remoteChildren = Query("SELECT DISTINCT item FROM remote_link WHERE parent = ? ORDER BY item")
  /// An item with two names in the directory comes twice. Read row by row, without sorting.
  let remoteLinksIn = Query("SELECT item FROM remote_link WHERE parent = ?")
  let anyRemoteChild = Query("SELECT 1 FROM remote_link WHERE parent = ? LIMIT 1")
  let insertRemoteLink = Query("INSERT INTO remote_link (parent, name, item) VALUES (?, ?, ?)")
  let insertRemoteLinks = RowInsert("remote_link (parent, name, item)", row: "(?, ?, ?)")
  let deleteRemoteLink = Query("DELETE FROM remote_link WHERE parent = ? AND name = ?")
  let removed = Query("SELECT record, time, device FROM removed WHERE item = ?")
  let allRemoved = Query(
    """
    SELECT record, time, device FROM removed WHERE NOT \(TimeOrder.precedes("time", "?1")) \
    ORDER BY \(TimeOrder.isLate("time")) DESC, time DESC, item
    """)
  let removedKeys = Query(
    """
    SELECT item, time, device FROM removed WHERE NOT \(TimeOrder.precedes("time", "?1")) \
    ORDER BY \(TimeOrder.isLate("time")) DESC, time DESC, item
    """)
  let setRemoved = Query(
    "INSERT OR REPLACE INTO removed (item, record, time, device) VALUES (?, ?, ?, ?)")
  let deleteRemoved = Query("DELETE FROM removed WHERE item = ?")

  let removedBefore = Query(
    "SELECT item FROM removed WHERE \(TimeOrder.precedes("time", "?1")) LIMIT ?2")
  let removedPage = Query(
    "SELECT item, record, time, device FROM removed WHERE item > ? ORDER BY item LIMIT ?")
  let remotePage = Query(
    "SELECT item, record FROM remote WHERE item > ? AND record IS NOT NULL ORDER BY item LIMIT ?")
  /// Of these the record is NULL unless the item never was here.
  private static let arrivalColumn = """
    CASE WHEN NOT EXISTS (SELECT 1 FROM inode i WHERE i.item = r.item AND i.detached = 0) \
    AND NOT EXISTS (SELECT 1 FROM dirty d WHERE d.item = r.item) THEN r.record END
    """
  let arrivalPage = Query(
    """
    SELECT r.item, \(arrivalColumn) FROM remote r WHERE r.same = 0 AND r.applied IS NULL \
    AND r.record IS NOT NULL AND r.item > ? ORDER BY r.item LIMIT ?
    """)
  let arrivalsInside = Query(
    """
    SELECT l.name, \(arrivalColumn) FROM \
    (SELECT name, item FROM remote_link WHERE parent = ? AND name > ? ORDER BY name LIMIT ?) l \
    LEFT JOIN remote r ON r.item = l.item AND r.same = 0 AND r.applied IS NULL ORDER BY l.name
    """)
  let arrival = Query(
    """
    SELECT \(arrivalColumn) FROM remote r \
    WHERE r.item = ? AND r.same = 0 AND r.applied IS NULL
    """)
  let agreeOnArrival = Query("UPDATE remote SET same = 1 WHERE item = ?")
  /// On all that `arrivalPage` gives between two items.
  let agreeOnArrivals = Query(
    """
    UPDATE remote SET same = 1 WHERE same = 0 AND applied IS NULL AND record IS NOT NULL \
    AND item > ? AND item <= ?
    """)
  let differsMore = Query("SELECT COUNT(*) FROM (SELECT 1 FROM remote WHERE same = 0 LIMIT ?)")

  let setConflicted = Query("INSERT OR IGNORE INTO conflicted (item) VALUES (?)")
  let clearConflicted = Query("DELETE FROM conflicted WHERE item = ?")
  let conflicted = Query("SELECT item FROM conflicted ORDER BY item")

  let chunk = Query("SELECT pack, offset, stored, length FROM chunk WHERE id = ?")
  let setChunk = Query(
    "INSERT OR REPLACE INTO chunk (id, pack, offset, stored, length) VALUES (?, ?, ?, ?, ?)")
  let allSent = Query("SELECT id, pack, offset, stored, length FROM sent ORDER BY id")
  let setSent = Query(
    """
    INSERT OR REPLACE INTO sent (id, pack, offset, stored, length, time) VALUES (?, ?, ?, ?, ?, ?)
    """)
  let deleteSent = Query("DELETE FROM sent WHERE id = ?")
  let dropSent = Query("DELETE FROM sent WHERE \(TimeOrder.precedes("time", "?1"))")
  let chunkPage = Query(
    """
    SELECT id, pack, offset, stored, length FROM chunk WHERE (pack, offset) > (?, ?) \
    ORDER BY pack, offset LIMIT ?
    """)
  let chunksOfPack = Query(
    "SELECT id, pack, offset, stored, length FROM chunk WHERE pack = ? ORDER BY offset")
  let deleteChunks = Query("DELETE FROM chunk WHERE pack = ?")
  let lastChunkOfPack = Query(
    """
    SELECT id, pack, offset, stored, length FROM chunk WHERE pack = ? \
    ORDER BY offset DESC LIMIT 1
    """)
  let lostChunk = Query("SELECT missing FROM lost_chunk WHERE pack = ? AND id = ?")
  let setLostChunk = Query(
    "INSERT OR REPLACE INTO lost_chunk (pack, id, missing) VALUES (?, ?, ?)")
  let deleteLostChunks = Query("DELETE FROM lost_chunk WHERE pack = ?")
  let anyLostChunk = Query("SELECT 1 FROM lost_chunk LIMIT 1")
  let lostChunksOfPack = Query("SELECT id FROM lost_chunk WHERE pack = ?")
  let lostChunkPage = Query(
    "SELECT pack, id FROM lost_chunk WHERE (pack, id) > (?, ?) ORDER BY pack, id LIMIT ?")
  let packsInUse = Query("SELECT COUNT(*) FROM pack WHERE state = 0")
  let pack = Query("SELECT id, bytes, state, condemned, since FROM pack WHERE id = ?")
  let packPage = Query(
    "SELECT id, bytes, state, condemned, since FROM pack WHERE id > ? ORDER BY id LIMIT ?")
  let condemnedPacks = Query(
    "SELECT id, bytes, state, condemned, since FROM pack WHERE state = 1 ORDER BY id")
  let setPack = Query(
    "INSERT OR REPLACE INTO pack (id, bytes, state, condemned, since) VALUES (?, ?, ?, ?, ?)")
  let newestSnapshots = Query(
    "SELECT sequence, bytes, device, since FROM snapshot ORDER BY sequence DESC")
  let setSnapshot = Query(
    "INSERT OR REPLACE INTO snapshot (sequence, bytes, device, since) VALUES (?, ?, ?, ?)")
  let dropSnapshots = Query("DELETE FROM snapshot WHERE sequence < ?")
  let peer = Query("SELECT sequence, since FROM peer WHERE device = ?")
  let setPeer = Query("INSERT OR REPLACE INTO peer (device, sequence, since) VALUES (?, ?, ?)")
  let stray = Query("SELECT since FROM stray WHERE pack = ?")
  let setStray = Query("INSERT OR REPLACE INTO stray (pack, since) VALUES (?, ?)")
  let allStrays = Query("SELECT pack FROM stray")
  let deleteStray = Query("DELETE FROM stray WHERE pack = ?")
  let insertRemotes = RowInsert("remote (item, record, applied, same)", row: "(?, ?, NULL, 0)")
  let insertChunks = RowInsert("chunk (id, pack, offset, stored, length)", row: "(?, ?, ?, ?, ?)")
  let stageItems = RowInsert("staged_item (item, record, kind, conflicted)", row: "(?, ?, ?, ?)")
  let stageLinks = RowInsert("staged_link (parent, name, item)", row: "(?, ?, ?)")
  let stageChunks = RowInsert(
    "staged_chunk (id, pack, offset, stored, length)", row: "(?, ?, ?, ?, ?)")
  let stageRemoved = Query(
    "INSERT INTO staged_removed (item, record, time, device) VALUES (?, ?, ?, ?)")
  let stagePack = Query(
    "INSERT INTO staged_pack (id, bytes, state, condemned) VALUES (?, ?, ?, ?)")
  let stagedItem = Query("SELECT record FROM staged_item WHERE item = ?")

  let setFolded = Query("INSERT OR REPLACE INTO folded (sequence, hash) VALUES (?, ?)")
  let dropFolded = Query("DELETE FROM folded WHERE sequence < ?")
  let allFolded = Query("SELECT sequence, hash FROM folded ORDER BY sequence")
  let isSent = Query("SELECT 1 FROM sent WHERE id = ?")
  let setKeptVersion = Query(
    """
    INSERT OR REPLACE INTO kept_version (item, version, generation, size, mtime, ctime, parent) \
    VALUES (?, ?, ?, ?, ?, ?, ?)
    """)
  let keptVersion = Query(
    "SELECT version, generation, size, mtime, ctime, parent FROM kept_version WHERE item = ?")
  let keptVersions = Query("SELECT item FROM kept_version ORDER BY item")
  let dropKeptVersion = Query("DELETE FROM kept_version WHERE item = ?")
  let setKeptConflicts = Query("INSERT OR REPLACE INTO kept_conflict (item, record) VALUES (?, ?)")
  let keptConflicts = Query("SELECT record FROM kept_conflict WHERE item = ?")
  let isStagedAsRemoved = Query("SELECT 1 FROM staged_removed WHERE item = ?")
  let isStagedChunk = Query("SELECT 1 FROM staged_chunk WHERE id = ?")
  let allKeptConflicts = Query("SELECT item, record FROM kept_conflict ORDER BY item")
  let dropKeptConflicts = Query("DELETE FROM kept_conflict WHERE item = ?")

  let shown = Query("SELECT record FROM shown WHERE ino = ?")
  let setShown = Query("INSERT OR REPLACE INTO shown (ino, record) VALUES (?, ?)")
  let deleteShown = Query("DELETE FROM shown WHERE ino = ?")
  let beginWrite = Query("INSERT OR REPLACE INTO open_write (ino, began) VALUES (?, ?)")
  let endWrite = Query("DELETE FROM open_write WHERE ino = ?")
}
