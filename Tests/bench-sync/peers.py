"""What users would take instead, each with a store of its own, made anew in every round.

Each has `initial`, `again` (after a change, or after none) and `restore` where it can; every one gives the
bytes that moved, or None. The clock is the caller's.
"""

import os
import re
import shutil
import subprocess

SECRET = "a passphrase of the benchmark"


def run(words, environment=None, cwd=None):
    """Standard output and errors as one text. Fails as the program does."""
    done = subprocess.run(
        words, env={**os.environ, "LC_ALL": "C", **(environment or {})}, cwd=cwd, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        raise RuntimeError(f"`{' '.join(words)}` ended with {done.returncode}:\n{done.stdout[-2000:]}")
    return done.stdout


def size_of(directory):
    total = 0
    for parent, _, files in os.walk(directory):
        for name in files:
            try:
                total += os.lstat(os.path.join(parent, name)).st_size
            except FileNotFoundError:
                pass
    return total


class Copy:
    """`cp -a`, the measure of what the disk can do."""

    name = "cp -a"
    command = "cp"

    def __init__(self, source, place):
        self.source, self.target, self.copies = source, os.path.join(place, "copy"), place

    def initial(self):
        run(["cp", "-a", self.source, self.target])

    def restore(self, target):
        run(["cp", "-a", self.target, target])

    def close(self):
        pass


class Rsync:
    """With its own protocol, which on one machine it only speaks when it is told to."""

    name = "rsync"
    command = "rsync"

    def __init__(self, source, place):
        self.source, self.target = source, os.path.join(place, "rsync")

    def initial(self):
        text = run(["rsync", "-a", "--delete", "--no-whole-file", "--stats", self.source + "/", self.target])
        moved = re.findall(r"Total bytes (?:sent|received): ([\d,]+)", text)
        return sum(int(number.replace(",", "")) for number in moved)

    again = initial

    def close(self):
        pass


class Borg:
    name = "borg, encrypted"
    command = "borg"

    def __init__(self, source, place):
        self.source, self.store, self.count = source, os.path.join(place, "borg"), 0
        self.environment = {
            "BORG_PASSPHRASE": SECRET, "BORG_BASE_DIR": os.path.join(place, "borg-base"),
            "BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK": "yes"}
        run(["borg", "init", "-e", "repokey-blake2", self.store], self.environment)

    def initial(self):
        before = size_of(os.path.join(self.store, "data"))
        self.count += 1
        run(["borg", "create", f"{self.store}::{self.count}", "."], self.environment, cwd=self.source)
        return lambda: size_of(os.path.join(self.store, "data")) - before

    again = initial

    def restore(self, target):
        os.mkdir(target)
        run(["borg", "extract", f"{self.store}::1"], self.environment, cwd=target)

    def close(self):
        pass


class Restic:
    name = "restic"
    command = "restic"

    def __init__(self, source, place):
        self.source, self.store = source, os.path.join(place, "restic")
        self.environment = {
            "RESTIC_PASSWORD": SECRET, "RESTIC_REPOSITORY": self.store,
            "RESTIC_CACHE_DIR": os.path.join(place, "restic-cache")}
        run(["restic", "init"], self.environment)

    def initial(self):
        before = size_of(self.store)
        run(["restic", "backup", "--quiet", "."], self.environment, cwd=self.source)
        return lambda: size_of(self.store) - before

    again = initial

    def restore(self, target):
        run(["restic", "restore", "latest", "--quiet", "--target", target], self.environment)

    def close(self):
        pass


def available(kinds):
    """Those whose program is here, and the names of the others."""
    there = [kind for kind in kinds if shutil.which(kind.command)]
    return there, [kind.command for kind in kinds if kind not in there]
