"""Two devices at work while one daemon or the other is killed and their backend goes away and comes back."""

import json
import os
import random
import shutil
import signal
import threading
import time

from editors import Gardener, SharedEditor


class Directory:
    """The default backend of an account: a directory that can be renamed away."""

    def __init__(self, account):
        self.place = os.path.join(account.root, "ubiquityfs-cloud")

    def leave(self):
        os.rename(self.place, self.place + ".away")

    def come_back(self):
        os.rename(self.place + ".away", self.place)


class Rhythm:
    """Seconds, from and to: between two kills, and for which the backend is away; and how often it leaves."""

    def __init__(self, kills=(1, 5), away=(3, 15), leaves=0.1, is_killing=True):
        self.kills, self.away, self.leaves, self.is_killing = kills, away, leaves, is_killing


class Killer:
    """Kills, brings back, and hides the backend, until the time is over."""

    def __init__(self, devices, numbers, locks, backend, rhythm):
        self.devices, self.numbers, self.locks = devices, numbers, locks
        self.backend, self.rhythm = backend, rhythm
        self.kills = self.absences = 0

    def run(self, seconds):
        end = time.monotonic() + seconds
        back_at = None
        while time.monotonic() < end:
            time.sleep(self.numbers.uniform(*self.rhythm.kills))
            if back_at is None and self.numbers.random() < self.rhythm.leaves:
                self.backend.leave()
                back_at = time.monotonic() + self.numbers.uniform(*self.rhythm.away)
                self.absences += 1
            if back_at is not None and time.monotonic() > back_at:
                self.backend.come_back()
                back_at = None
            if self.rhythm.is_killing:
                self.kill(self.numbers.choice(self.devices))
        if back_at is not None:
            self.backend.come_back()

    def kill(self, device):
        os.kill(device.pid, signal.SIGKILL)
        self.kills += 1
        # Whoever is in a call gets its error first, and waits for the device to be back afterwards.
        with self.locks[device.name]:
            os.system(f"umount -l '{device.mountpoint}' 2>/dev/null")
            device.mount()


def versions(device, path):
    """The contents of all versions of a file."""
    listed = json.loads(device.run("versions", "list", "--json", path))["versions"]
    return [device.run("versions", "cat", path, version["id"]) for version in listed]


def work(account, backend, rhythm, options, say):
    """All of it: devices, workers, kills, and what is found in the end."""
    numbers = random.Random(options.seed)
    failures = []
    a, b = account.device("a"), account.device("b")
    say(f"{options.minutes:g} minutes, seed {options.seed}, in {account.root}")
    os.mkdir(os.path.join(a.documents, "shared"))
    for device in (a, b):
        shutil.copytree(options.tree, os.path.join(device.documents, "tree-" + device.name), symlinks=True)
    for device in (a, b, a):
        device.run("sync", "--wait", "--timeout", "600")
    locks = {device.name: threading.RLock() for device in (a, b)}
    workers = [
        worker(device, locks[device.name], random.Random(f"{options.seed} {device.name} {worker.__name__}"))
        for device in (a, b) for worker in (Gardener, SharedEditor)]
    for worker in workers:
        worker.start()
    killer = Killer([a, b], numbers, locks, backend, rhythm)
    killer.run(options.minutes * 60)
    for worker in workers:
        worker.ended.set()
    for worker in workers:
        worker.join(120)
        if worker.is_alive():
            failures.append(f"{worker.summary()}: does not end")
        failures += worker.failures
    say(f"{killer.kills} kills, the backend away {killer.absences} times; "
        + ", ".join(worker.summary() for worker in workers))
    started = time.monotonic()
    for device in (a, b, a, b, a, b):
        device.run("sync", "--wait", "--timeout", "1800")
    say(f"in sync after {time.monotonic() - started:.0f} s")
    failures += account.compare(a, b)
    for worker in workers:
        for device in (a, b):
            failures += worker.check(device, workers, versions)
    for device in (a, b):
        say(f"fsck of {device.name}: {device.run('fsck').strip()}")
    return failures
