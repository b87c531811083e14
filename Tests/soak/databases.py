"""SQLite: money is moved between accounts, and none may be lost."""

import os
import sqlite3

ACCOUNTS = 200
MONEY = ACCOUNTS * 1000


def connect(path, mode):
    database = sqlite3.connect(path, timeout=60, isolation_level=None)
    found = database.execute(f"PRAGMA journal_mode={mode}").fetchone()[0]
    if found.lower() != mode.lower():
        raise AssertionError(f"journal mode is {found}, not {mode}")
    return database


def create(path, mode):
    database = connect(path, mode)
    database.execute("CREATE TABLE account (id INTEGER PRIMARY KEY, balance INTEGER, note BLOB)")
    database.execute("CREATE TABLE transfer (id INTEGER PRIMARY KEY, amount INTEGER)")
    database.execute("BEGIN")
    for number in range(ACCOUNTS):
        database.execute("INSERT INTO account VALUES (?, 1000, NULL)", (number,))
    database.execute("COMMIT")
    database.close()


def move(job, database):
    one, other = job.random.sample(range(ACCOUNTS), 2)
    amount = job.random.randrange(50)
    database.execute("BEGIN IMMEDIATE")
    database.execute("UPDATE account SET balance = balance - ? WHERE id = ?", (amount, one))
    database.execute(
        "UPDATE account SET balance = balance + ?, note = ? WHERE id = ?",
        (amount, job.random.randbytes(job.random.randrange(3000)), other))
    database.execute("INSERT INTO transfer (amount) VALUES (?)", (amount,))
    if job.random.random() < 0.1:
        database.execute("ROLLBACK")
        return 0
    database.execute("COMMIT")
    return 1


def check(job, database, transfers):
    total = database.execute("SELECT sum(balance) FROM account").fetchone()[0]
    job.must(total == MONEY, f"{MONEY} became {total}")
    count = database.execute("SELECT coalesce(max(id), 0) FROM transfer").fetchone()[0]
    kept = database.execute("SELECT count(*) FROM transfer").fetchone()[0]
    job.must(kept == transfers, f"{transfers} transfers were committed, {kept} are there ({count})")


def trim(database, transfers):
    """Keeps the database from growing for as long as the load lasts."""
    if transfers < 2000:
        return transfers
    database.execute("DELETE FROM transfer")
    return 0


def wal(job, documents):
    """Two connections, one that writes and one that reads, and now and then new ones."""
    directory = os.path.join(documents, "sqlite-wal")
    os.mkdir(directory)
    path = os.path.join(directory, "bank.sqlite")
    create(path, "WAL")
    transfers = 0
    while job.goes_on():
        writer, reader = connect(path, "WAL"), connect(path, "WAL")
        for _ in range(40):
            transfers += move(job, writer)
            check(job, reader, transfers)
        if job.random.random() < 0.3:
            writer.execute(f"PRAGMA wal_checkpoint({job.random.choice(['PASSIVE', 'TRUNCATE'])})")
        found = reader.execute("PRAGMA integrity_check").fetchall()
        job.must(found == [("ok",)], f"integrity_check: {found}")
        transfers = trim(writer, transfers)
        reader.close()
        writer.close()
        job.pause(1)


def rollback(job, documents):
    """Each kind of rollback journal by turns."""
    directory = os.path.join(documents, "sqlite-rollback")
    os.mkdir(directory)
    path = os.path.join(directory, "bank.sqlite")
    create(path, "DELETE")
    transfers = 0
    while job.goes_on():
        mode = job.random.choice(["DELETE", "TRUNCATE", "PERSIST"])
        writer, reader = connect(path, mode), connect(path, mode)
        for _ in range(15):
            transfers += move(job, writer)
            check(job, reader, transfers)
        found = reader.execute("PRAGMA integrity_check").fetchall()
        job.must(found == [("ok",)], f"integrity_check: {found}")
        transfers = trim(writer, transfers)
        if job.random.random() < 0.05:
            writer.execute("VACUUM")
        reader.close()
        writer.close()
        job.pause(1)
