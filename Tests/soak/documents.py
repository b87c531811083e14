"""Files: saved by renaming, written through mappings, evicted, and seen from the other device."""

import errno
import hashlib
import mmap
import os

from devices import Refused

PAGE = 4096


def save_by_rename(job, documents):
    """As office programs do: a lock file, a new file beside the old one, fsync, rename over it."""
    directory = os.path.join(documents, "office")
    os.mkdir(directory)
    contents = {}
    while job.goes_on():
        name = f"document-{job.random.randrange(12)}.odt"
        path = os.path.join(directory, name)
        lock = os.path.join(directory, f".~lock.{name}#")
        with open(lock, "x") as file:
            file.write("someone,somewhere\n")
        if name in contents:
            with open(path, "rb") as file:
                job.must(file.read() == contents[name], f"{path} is not what was saved")
        new = job.random.randbytes(job.random.randrange(1, 300_000))
        temporary = os.path.join(directory, f"lu{job.random.randrange(10**6)}.tmp")
        with open(temporary, "xb") as file:
            file.write(new)
            file.flush()
            os.fsync(file.fileno())
        if name in contents and job.random.random() < 0.3:
            backup = path + ".bak"
            os.rename(path, backup)
            os.rename(temporary, path)
            os.unlink(backup)
        else:
            os.rename(temporary, path)
        contents[name] = new
        with open(path, "rb") as file:
            job.must(file.read() == new, f"{path} is not what was just saved")
        os.unlink(lock)
        names = set(os.listdir(directory))
        job.must(names == set(contents), f"{directory} holds {names ^ set(contents)}")
        job.pause(0.5)


def mapped(job, documents):
    """Pages are written through a shared mapping and read through it, with read, and after sync."""
    path = os.path.join(documents, "mapped")
    os.mkdir(path)
    path = os.path.join(path, "pages")
    shadow = bytearray(64 * PAGE)
    with open(path, "wb") as file:
        file.write(shadow)
    while job.goes_on():
        with open(path, "r+b") as file:
            pages = job.random.randrange(16, 257)
            file.truncate(pages * PAGE)
            del shadow[pages * PAGE:]
            shadow.extend(bytes(pages * PAGE - len(shadow)))
            with mmap.mmap(file.fileno(), pages * PAGE) as memory:
                for _ in range(job.random.randrange(1, 40)):
                    at = job.random.randrange(pages * PAGE - 100)
                    piece = job.random.randbytes(100)
                    memory[at:at + 100] = piece
                    shadow[at:at + 100] = piece
                if job.random.random() < 0.5:
                    memory.flush()
                if job.random.random() < 0.5:
                    at = job.random.randrange(pages) * PAGE
                    piece = job.random.randbytes(PAGE)
                    os.pwrite(file.fileno(), piece, at)
                    shadow[at:at + PAGE] = piece
                job.must(memory[:] == bytes(shadow), "the mapping is not what was written")
            job.must(os.pread(file.fileno(), len(shadow) + 1, 0) == bytes(shadow),
                     "read does not give what was written through the mapping")
        with open(path, "rb") as file:
            job.must(file.read() == bytes(shadow), "a new open does not give what was written")
        job.pause(1)


def evict(job, device):
    """Files that nobody uses are evicted and read again; what is open or new is refused."""
    directory = os.path.join(device.documents, "evicted")
    os.mkdir(directory)
    contents = {}
    for number in range(20):
        path = os.path.join(directory, f"film-{number}")
        contents[path] = job.random.randbytes(job.random.randrange(1, 800_000))
        with open(path, "wb") as file:
            file.write(contents[path])
    device.run("sync", "--wait", "--timeout", "900")
    while job.goes_on():
        path = job.random.choice(list(contents))
        action = job.random.random()
        if action < 0.1:
            contents[path] = job.random.randbytes(job.random.randrange(1, 800_000))
            with open(path, "wb") as file:
                file.write(contents[path])
            device.run("sync", "--wait", "--timeout", "900")
        elif action < 0.2:
            with open(path, "rb") as file:
                file.read(1)
                try:
                    device.run("evict", path)
                    job.must(False, f"{path} was evicted while it was open")
                except Refused as refusal:
                    job.must(refusal.status == 5, str(refusal))
        else:
            device.run("evict", path)
            found = device.item(path)["downloadingStatus"].lower()
            job.must("not" in found, f"{path} is {found} after it was evicted")
            status = os.stat(path)
            job.must(status.st_size == len(contents[path]), f"{path} changed its size")
            if action < 0.5:
                device.run("download", path)
            elif action < 0.7:
                at = job.random.randrange(len(contents[path]))
                with open(path, "rb") as file:
                    job.must(os.pread(file.fileno(), 5000, at) == contents[path][at:at + 5000],
                             f"{path} has other bytes at {at}")
        with open(path, "rb") as file:
            job.must(file.read() == contents[path], f"{path} is not what was written")
        job.pause(1)


def sealed(name, number, body):
    head = f"{name} {number} {len(body)} {hashlib.sha256(body).hexdigest()}\n".encode()
    return head + body


def opened(data):
    """The number in what `sealed` made; fails for anything else."""
    head, _, body = data.partition(b"\n")
    name, number, length, digest = head.decode().split()
    if int(length) != len(body) or hashlib.sha256(body).hexdigest() != digest:
        raise AssertionError(f"{name} {number} has {len(body)} bytes that are not its own")
    return name, int(number)


def sealed_writer(job, documents, name):
    """Files that say what is in them, for the other device to read."""
    directory = os.path.join(documents, name)
    os.mkdir(directory)
    number = 0
    while job.goes_on():
        number += 1
        file = f"note-{job.random.randrange(30)}"
        path = os.path.join(directory, file)
        if job.random.random() < 0.1:
            if os.path.exists(path):
                os.unlink(path)
        else:
            data = sealed(file, number, job.random.randbytes(job.random.randrange(60_000)))
            temporary = os.path.join(directory, f".{file}.tmp")
            with open(temporary, "wb") as output:
                output.write(data)
            os.rename(temporary, path)
            with open(path, "rb") as saved:
                job.must(saved.read() == data, f"{path} is not what was just saved")
        job.pause(0.7)


def sealed_reader(job, documents, name):
    """Each file is whole whenever it is read, and no older than when it was read before."""
    directory = os.path.join(documents, name)
    newest = {}
    while job.goes_on():
        try:
            files = [file for file in os.listdir(directory) if not file.startswith(".")]
        except FileNotFoundError:
            job.pause(1)
            continue
        job.random.shuffle(files)
        for file in files[:10]:
            try:
                with open(os.path.join(directory, file), "rb") as source:
                    found, number = opened(source.read())
            except OSError as error:
                # Removed on the other device since it was listed.
                if error.errno in (errno.ENOENT, errno.ESTALE):
                    continue
                raise
            job.must(found == file, f"{file} has the content of {found}")
            job.must(number >= newest.get(file, 0),
                     f"{file} went back from {newest.get(file)} to {number}")
            newest[file] = number
        job.pause(1)
