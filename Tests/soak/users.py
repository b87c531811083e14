"""Programs that use a mount and take no error for an answer: any one that they see is told, as is the
longest time that a single call took."""

import errno
import fcntl
import mmap
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
import traceback


class Watch:
    """The figures of one program: its calls, the longest of them, those above a second, and its first errors."""

    def __init__(self, context, name):
        self.name = name
        self.calls = context.Value("Q", 0, lock=False)
        self.longest = context.Value("d", 0, lock=False)
        self.errors = context.SimpleQueue()
        self.slow = context.SimpleQueue()
        self.is_over = context.Event()

    def call(self, function, *arguments, **named):
        start = time.monotonic()
        try:
            return function(*arguments, **named)
        finally:
            took = time.monotonic() - start
            self.calls.value += 1
            if took > self.longest.value:
                self.longest.value = took
            if took > 1:
                self.slow.put(f"{time.time():.3f} {self.name}: {function.__name__} took {took:.3f} s")

    def check(self, is_right, text):
        if not is_right:
            raise AssertionError(text)


def holder(watch, top, numbers):
    """A hundred open files, of all sizes and ways of opening them."""
    files = []
    for number in range(100):
        path = os.path.join(top, f"held-{number}")
        content = bytearray(numbers.randbytes(numbers.choice([10, 5000, 100_000, 300_000])))
        with open(path, "wb") as file:
            file.write(content)
        flags = numbers.choice([os.O_RDONLY, os.O_RDWR, os.O_RDWR, os.O_RDWR | os.O_APPEND])
        files.append([os.open(path, flags), flags, content, path])
    while not watch.is_over.is_set():
        entry = numbers.choice(files)
        file, flags, content, path = entry
        kind = numbers.random()
        if kind < 0.5:
            at = numbers.randrange(len(content))
            size = numbers.randrange(1, 20_000)
            found = watch.call(os.pread, file, size, at)
            watch.check(found == bytes(content[at:at + size]), f"{path}: other bytes at {at}")
        elif kind < 0.7:
            found = watch.call(os.fstat, file).st_size
            watch.check(found == len(content), f"{path}: size {found}, not {len(content)}")
        elif kind < 0.95 and flags != os.O_RDONLY:
            piece = numbers.randbytes(numbers.randrange(1, 9000))
            at = len(content) if flags & os.O_APPEND else numbers.randrange(len(content))
            if len(content) > 1_000_000 and flags & os.O_APPEND:
                continue
            watch.check(watch.call(os.pwrite, file, piece, at) == len(piece), f"{path}: short write")
            content[at:at + len(piece)] = piece
        else:
            watch.call(os.close, file)
            with open(path, "rb") as other:
                watch.check(other.read() == bytes(content), f"{path}: other bytes after its close")
            entry[0] = watch.call(os.open, path, flags)
        time.sleep(0.001)


def writer(watch, top, numbers):
    """Appends lines, each once."""
    path = os.path.join(top, "log")
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    count = 0
    while not watch.is_over.is_set():
        watch.call(os.write, file, b"line %d\n" % count)
        count += 1
        if numbers.random() < 0.01:
            watch.call(os.fsync, file)
        time.sleep(0.0005)
    os.close(file)
    with open(path) as lines:
        for number, line in enumerate(lines):
            watch.check(line == f"line {number}\n", f"{path}: line {number} is {line!r}")
        watch.check(number + 1 == count, f"{path}: {number + 1} lines, not {count}")


def reader(watch, top, numbers):
    path = os.path.join(top, "read")
    content = numbers.randbytes(2_000_000)
    with open(path, "wb") as file:
        file.write(content)

    def whole():
        with open(path, "rb", buffering=0) as file:
            return file.read(len(content))

    while not watch.is_over.is_set():
        watch.check(watch.call(whole) == content, f"{path}: other bytes")
        time.sleep(0.001)


def statter(watch, top, numbers):
    path = os.path.join(top, "looked-at")
    with open(path, "wb") as file:
        file.write(b"x" * 77)
    while not watch.is_over.is_set():
        watch.check(watch.call(os.stat, path).st_size == 77, f"{path}: another size")
        # One that the kernel has to ask for.
        try:
            watch.call(os.stat, f"{path}-{numbers.random()}")
            watch.check(False, "a name that nobody made is there")
        except FileNotFoundError:
            pass


def namer(watch, top, numbers):
    """Makes, moves and removes names. Each of it works once, so that one done twice shows as an error."""
    top = os.path.join(top, "names")
    os.mkdir(top)
    number = 0

    def place(name):
        return os.path.join(top, name)

    def once():
        one, other = place(f"one-{number}"), place(f"other-{number}")
        watch.call(os.mkdir, one)
        file = watch.call(os.open, os.path.join(one, "new"), os.O_CREAT | os.O_EXCL | os.O_RDWR)
        watch.call(os.write, file, b"text")
        watch.call(os.close, file)
        watch.call(os.rename, one, other)
        watch.call(os.link, os.path.join(other, "new"), place("linked"))
        watch.check(os.stat(place("linked")).st_nlink == 2, "a link is missing")
        watch.call(os.symlink, "nowhere", place("symbolic"))
        watch.call(os.mkfifo, place("fifo"))
        watch.call(os.rename, place("linked"), os.path.join(other, "linked"))
        with open(place("saved"), "wb") as save:
            save.write(b"saved %d" % number)
        watch.call(os.rename, place("saved"), place("document"))
        with open(place("document"), "rb") as document:
            watch.check(document.read() == b"saved %d" % number, "a save was lost")
        watch.call(os.setxattr, other, "user.tag", b"x", os.XATTR_CREATE)
        watch.call(os.removexattr, other, "user.tag")
        watch.call(os.unlink, os.path.join(other, "new"))
        watch.call(os.unlink, os.path.join(other, "linked"))
        watch.call(os.unlink, place("symbolic"))
        watch.call(os.unlink, place("fifo"))
        watch.call(os.rmdir, other)
        watch.check(sorted(os.listdir(top)) == ["document"], f"there is {os.listdir(top)}")

    while not watch.is_over.is_set():
        number += 1
        try:
            once()
        except OSError as error:
            raise AssertionError(f"there is {sorted(os.listdir(top))}") from error


def locker(watch, top, numbers):
    """Holds a flock and a lock of a range; another process never gets either."""
    path = os.path.join(top, "locked")
    with open(path, "wb") as file:
        file.write(b"x" * 100)
    held = os.open(path, os.O_RDWR)
    fcntl.flock(held, fcntl.LOCK_EX)
    ranged = os.open(path + "-range", os.O_RDWR | os.O_CREAT)
    fcntl.lockf(ranged, fcntl.LOCK_EX, 10, 0)
    script = ("import fcntl, os, sys, time\n"
              "one, other = [os.open(p, os.O_RDWR) for p in sys.argv[1:]]\n"
              "while os.getppid() == int(os.environ['HOLDER']):\n"
              "  for attempt in (lambda: fcntl.flock(one, fcntl.LOCK_EX | fcntl.LOCK_NB),\n"
              "                  lambda: fcntl.lockf(other, fcntl.LOCK_EX | fcntl.LOCK_NB, 5, 0)):\n"
              "    try: attempt()\n"
              "    except BlockingIOError: time.sleep(0.002)\n"
              "    else: sys.exit('a lock that is held was given')\n")
    other = subprocess.Popen(
        [sys.executable, "-c", script, path, path + "-range"], stderr=subprocess.PIPE,
        env=dict(os.environ, HOLDER=str(os.getpid())))
    while not watch.is_over.is_set():
        time.sleep(0.02)
        if other.poll() is not None:
            watch.check(False, f"the other process ended: {other.stderr.read()!r}")
        watch.call(os.fstat, held)
    other.kill()
    other.wait()


def mapper(watch, top, numbers):
    path = os.path.join(top, "mapped")
    with open(path, "wb") as file:
        file.write(bytes(1 << 20))
    file = os.open(path, os.O_RDWR)
    memory = mmap.mmap(file, 1 << 20)
    count = 0
    while not watch.is_over.is_set():
        count += 1
        at = numbers.randrange(1 << 17) * 8
        word = count.to_bytes(8, "little")

        def store():
            memory[at:at + 8] = word

        watch.call(store)
        found = watch.call(os.pread, file, 8, at)
        watch.check(found == word, f"{path}: {found!r} at {at}, not {word!r}")
        time.sleep(0.001)
    memory.close()
    os.close(file)


def unlinked(watch, top, numbers):
    """Works in a file that has no name any more, and in one that never had one."""
    path = os.path.join(top, "unlinked")
    files = [os.open(path, os.O_RDWR | os.O_CREAT), os.open(top, os.O_RDWR | os.O_TMPFILE)]
    os.unlink(path)
    sizes = [0, 0]
    while not watch.is_over.is_set():
        for index, file in enumerate(files):
            watch.call(os.pwrite, file, b"%08d" % (sizes[index] // 8), sizes[index])
            sizes[index] += 8
            at = numbers.randrange(sizes[index] // 8)
            found = watch.call(os.pread, file, 8, at * 8)
            watch.check(found == b"%08d" % at, f"{path} {index}: {found!r} at {at}")
            watch.check(watch.call(os.fstat, file).st_size == sizes[index], f"{path}: another size")
        time.sleep(0.002)
    named = os.path.join(top, "named")
    # With a directory, linkat(2) follows the link.
    watch.call(os.link, f"/proc/self/fd/{files[1]}", named, src_dir_fd=files[0])
    watch.check(os.stat(named).st_size == sizes[1], f"{named}: another size")


def lister(watch, top, numbers):
    top = os.path.join(top, "listed")
    os.mkdir(top)
    names = {f"a-rather-long-name-of-an-entry-{number}" for number in range(400)}
    for name in names:
        with open(os.path.join(top, name), "wb"):
            pass

    while not watch.is_over.is_set():
        found = set()
        with watch.call(os.scandir, top) as entries:
            while entry := watch.call(next, entries, None):
                watch.call(os.stat, entry.path)
                found.add(entry.name)
        watch.check(found == names, f"{top}: other names")
        time.sleep(0.01)


ALL = [holder, writer, reader, statter, namer, locker, mapper, unlinked, lister]


def crowd(watch, top, numbers):
    """Works in directories that both devices work in: what it finds may be gone the next moment."""
    allowed = {errno.ENOENT, errno.EEXIST, errno.ENOTEMPTY}

    def place():
        return os.path.join(top, f"crowd-{numbers.randrange(3)}", f"name-{numbers.randrange(30)}")

    def write():
        with open(place(), "wb") as file:
            file.write(numbers.randbytes(numbers.randrange(1, 3000)))

    kinds = [write, write, lambda: os.rename(place(), place()), lambda: os.unlink(place()),
             lambda: os.listdir(os.path.dirname(place())), lambda: os.stat(place())]
    while not watch.is_over.is_set():
        try:
            watch.call(numbers.choice(kinds))
        except OSError as error:
            if error.errno not in allowed:
                raise
        time.sleep(numbers.uniform(0, 0.02))


def run(function, watch, top, seed):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        function(watch, top, random.Random(seed))
    except BaseException:  # noqa: BLE001
        watch.errors.put(f"{time.time():.3f} {watch.name}: {traceback.format_exc()}")


def start(function, top, name, seed):
    """Gives the process and its watch."""
    context = multiprocessing.get_context("fork")
    watch = Watch(context, f"{function.__name__} on {name}")
    process = context.Process(
        target=run, args=(function, watch, top, f"{seed} {name} {function.__name__}"))
    process.start()
    return process, watch
