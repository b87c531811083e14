"""Workers whose device may be killed in the middle of any call, and who know what has to be there then."""

import os
import threading
import time


class Worker(threading.Thread):
    def __init__(self, device, lock, numbers):
        super().__init__(daemon=True)
        self.device, self.lock, self.numbers = device, lock, numbers
        self.ended = threading.Event()
        self.failures, self.done, self.broken = [], 0, 0

    def run(self):
        while not self.ended.is_set():
            try:
                self.step()
                self.done += 1
            except OSError:
                # The daemon was killed in between. It is back when the lock is free.
                self.broken += 1
                with self.lock:
                    pass
                time.sleep(0.05)
            except Exception as error:  # noqa: BLE001
                self.failures.append(f"{self.summary()}: {error!r}")
                return
            self.ended.wait(self.numbers.uniform(0, 0.02))

    def summary(self):
        return f"{type(self).__name__} of {self.device.name}: {self.done} done, {self.broken} broken off"


def read(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None


class Gardener(Worker):
    """Writes, renames and removes files of a tree that is its device's alone."""

    def __init__(self, device, lock, numbers):
        super().__init__(device, lock, numbers)
        self.name = "tree-" + device.name
        self.top = os.path.join(device.documents, self.name)
        # What each file may be: one content, or several where a call was broken off.
        self.files = {}
        for parent, _, names in os.walk(self.top):
            for name in names:
                path = os.path.relpath(os.path.join(parent, name), self.top)
                self.files[path] = {read(os.path.join(self.top, path))}
        self.count = 0

    def step(self):
        # Not while the mount is away: in the empty directory below it nothing is there.
        with self.lock:
            self.settle()
        self.count += 1
        kind = self.numbers.random()
        path = self.numbers.choice(sorted(self.files)) if self.files else None
        if kind < 0.5 or path is None:
            new = path if path and self.numbers.random() < 0.6 else os.path.join(
                os.path.dirname(path or ""), f"new-{self.count}")
            content = (f"{self.name} {self.count}\n" * self.numbers.randrange(1, 4000)).encode()
            # Written in place, and so in pieces: until it is closed it may be anything.
            self.files[new] = None
            with open(os.path.join(self.top, new), "wb") as file:
                file.write(content)
            self.files[new] = {content}
        elif kind < 0.75:
            content = (f"{self.name} {self.count} saved\n" * self.numbers.randrange(1, 400)).encode()
            temporary = path + ".saving"
            self.files[temporary] = None
            with open(os.path.join(self.top, temporary), "wb") as file:
                file.write(content)
            self.files[temporary] = {content}
            # Both before the call: it may be broken off after it was done.
            self.files[path] = (self.files[path] or set()) | {content} if self.files[path] else None
            self.files[temporary] = {content, None}
            os.rename(os.path.join(self.top, temporary), os.path.join(self.top, path))
            del self.files[temporary]
            self.files[path] = {content}
        elif kind < 0.9:
            new = os.path.join(os.path.dirname(path), f"moved-{self.count}")
            before = self.files[path]
            if before is None:
                return
            self.files[path], self.files[new] = before | {None}, before | {None}
            os.rename(os.path.join(self.top, path), os.path.join(self.top, new))
            del self.files[path]
            self.files[new] = before
        elif len(self.files) > 200:
            self.files[path] = (self.files[path] | {None}) if self.files[path] else None
            os.unlink(os.path.join(self.top, path))
            del self.files[path]

    def settle(self):
        """Looks at what a call that was broken off has left, once the device is back."""
        for path, contents in list(self.files.items()):
            if contents is not None and len(contents) == 1:
                continue
            now = read(os.path.join(self.top, path))
            if contents is not None and now not in contents:
                raise AssertionError(f"{path} is what it never was: {now and len(now)} bytes")
            if now is None:
                del self.files[path]
            else:
                self.files[path] = {now}

    def check(self, device, _workers, _versions):
        self.top = os.path.join(self.device.documents, self.name)
        self.settle()
        top = os.path.join(device.documents, self.name)
        found = {
            os.path.relpath(os.path.join(parent, name), top)
            for parent, _, names in os.walk(top) for name in names}
        failures = [f"{device.name}: {self.name}/{path} is there and should not be"
                    for path in found - self.files.keys()]
        for path, contents in self.files.items():
            if read(os.path.join(top, path)) not in contents:
                failures.append(f"{device.name}: {self.name}/{path} is not what was written last")
        return failures


class SharedEditor(Worker):
    """Edits files that the other device edits too. Before it replaces a content it reads it, in the file
    that it has open for writing already: what it did not see it does not replace."""

    def __init__(self, device, lock, numbers):
        super().__init__(device, lock, numbers)
        self.top = os.path.join(device.documents, "shared")
        self.written, self.replaced, self.count = {}, set(), 0

    def step(self):
        self.count += 1
        name = f"document-{self.numbers.randrange(20)}"
        content = f"{self.device.name} {self.count} {name}\n"
        path = os.path.join(self.top, name)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            before = os.pread(descriptor, 4096, 0).decode()
            # From here on it may be gone, whatever becomes of the rest.
            self.replaced.add(before)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, content.encode(), 0)
        finally:
            os.close(descriptor)
        self.written[content] = name
        self.ended.wait(self.numbers.uniform(0.05, 0.5))

    def check(self, device, workers, versions):
        replaced = set().union(*(worker.replaced for worker in workers if isinstance(worker, SharedEditor)))
        top = os.path.join(device.documents, "shared")
        there = set()
        for name in os.listdir(top):
            there.update(versions(device, os.path.join(top, name)))
        return [f"{device.name}: {content.strip()!r} is nowhere"
                for content in self.written if content not in replaced and content not in there]
