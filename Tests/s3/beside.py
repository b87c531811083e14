"""The same work done by the program and by rclone, on the same Ceph, by turns."""

import os
import shutil
import subprocess
import time

import material
import ours
from rclone import AT_ONCE, Mount, Rclone
from watching import Watched, quiet

OURS, SYNC, MOUNT = "ubiquityfs", "rclone sync", "rclone mount"
LARGE = "large"


class Beside:
    def __init__(self, figures, options, ceph, proxy, place):
        self.figures, self.options, self.ceph, self.proxy, self.place = figures, options, ceph, proxy, place
        self.part = f"Beside rclone, {options.round_trip:g} ms"
        self.source = os.path.join(place, "source")
        self.many = os.path.join(place, "many")
        os.makedirs(place)

    def run(self):
        material.tree(self.source, self.options.files, 20_000)
        material.write(os.path.join(self.source, LARGE), self.options.large << 20)
        material.tree(self.many, self.options.names, 1_000)
        for program, work in ((OURS, self.ubiquity), (SYNC, self.sync), (MOUNT, self.mount)):
            if self.options.only and not any(part in program for part in self.options.only):
                continue
            # The change of one byte is to be new to each.
            material.change_byte(os.path.join(self.source, LARGE))
            work()

    def step(self, name, program, watched, **more):
        self.figures.step(self.part, name, program, watched, **more)

    def watched(self):
        quiet(self.proxy)
        os.sync()
        return Watched(self.proxy)

    def names(self):
        what = f"{self.options.files:,} files of 20 KB and one of {self.options.large} MiB"
        return (f"initial upload: {what}", "nothing changed", f"one byte changed in {self.options.large} MiB",
                "cold first byte", f"{self.options.large} MiB from start to end", f"ls -lR of {self.options.names:,} "
                "files, just mounted", f"ls -lR of {self.options.names:,} files, again")

    def ubiquity(self):
        initial, same, byte, first, whole, listing, again = self.names()
        self.ceph.store.make_bucket("ours")
        account = ours.account(os.path.join(self.place, "account"), self.options.program, self.ceph, self.proxy, "ours")
        try:
            a = account.device("a")
            ours.synced(a)
            with self.watched() as watched:
                source = ours.fill(a, self.source, "source")
                ours.synced(a)
            self.step(initial, OURS, watched)
            large = os.path.join(source, LARGE)
            for _ in range(self.options.rounds):
                with self.watched() as watched:
                    ours.synced(a)
                self.step(same, OURS, watched)
                with self.watched() as watched:
                    material.change_byte(large)
                    ours.synced(a)
                self.step(byte, OURS, watched)
                for name, length in ((first, 1), (whole, None)):
                    ours.evict(a, large)
                    with self.watched() as watched:
                        material.read(large, 0, length)
                        watched.stop()
                        quiet(self.proxy)
                    self.step(name, OURS, watched)
            many = ours.fill(a, self.many, "many")
            ours.synced(a)
            for _ in range(self.options.rounds):
                ours.restart(a)
                ours.synced(a)
                for name in (listing, again):
                    with self.watched() as watched:
                        listed(many, self.options.names)
                    self.step(name, OURS, watched)
            # On a device that is new the names have to come first.
            with self.watched() as watched:
                b = account.device("b")
                ours.synced(b)
                listed(os.path.join(b.documents, "many"), self.options.names)
            self.step("the same on a new device, signing in included", OURS, watched)
        finally:
            left = account.close(tidy=False)
            if left:
                self.figures.note(f"left behind: {left}")
        self.ceph.store.remove_bucket("ours")

    def sync(self):
        initial, same, byte, _, _, _, _ = self.names()
        self.ceph.store.make_bucket("sync")
        rclone = Rclone(self.ceph, self.proxy.url, os.path.join(self.place, "rclone-sync"))
        with self.watched() as watched:
            rclone("sync", self.source, "store:sync", *AT_ONCE)
        self.step(initial, SYNC, watched)
        for _ in range(self.options.rounds):
            with self.watched() as watched:
                rclone("sync", self.source, "store:sync", *AT_ONCE)
            self.step(same, SYNC, watched)
            with self.watched() as watched:
                rclone("sync", self.source, "store:sync", "--checksum", *AT_ONCE)
            self.step(same, SYNC + " --checksum", watched)
            with self.watched() as watched:
                material.change_byte(os.path.join(self.source, LARGE))
                rclone("sync", self.source, "store:sync", *AT_ONCE)
            self.step(byte, SYNC, watched)
        self.ceph.store.remove_bucket("sync")

    def mount(self):
        initial, _, byte, first, whole, listing, again = self.names()
        self.ceph.store.make_bucket("mount")
        self.ceph.store.make_bucket("many")
        rclone = Rclone(self.ceph, self.proxy.url, os.path.join(self.place, "rclone-mount"))
        directory = os.path.join(self.place, "mount-rclone")
        large = os.path.join(directory, "source", LARGE)
        with Mount(rclone, "store:mount", directory):
            with self.watched() as watched:
                subprocess.run(["cp", "-r", self.source, os.path.join(directory, "source")], check=True)
                self.arrived()
            self.step(initial, MOUNT, watched)
            for _ in range(self.options.rounds):
                old = self.tag()
                with self.watched() as watched:
                    material.change_byte(large)
                    while self.tag() == old:
                        time.sleep(0.05)
                self.step(byte, MOUNT, watched)
        for name, length in ((first, 1), (whole, None)) * self.options.rounds:
            with Mount(rclone, "store:mount", directory):
                # Names are there on either side: what is measured is content.
                os.stat(large)
                with self.watched() as watched:
                    material.read(large, 0, length)
                    watched.stop()
                    quiet(self.proxy)
                self.step(name, MOUNT, watched)
        direct = Rclone(self.ceph, self.ceph.url, os.path.join(self.place, "rclone-direct"))
        direct("copy", self.many, "store:many", "--transfers", "32")
        # Once: it asks for the time of each file by itself, unless it is told not to.
        for program, more in ((MOUNT, []), (MOUNT + " --use-server-modtime", ["--use-server-modtime"])):
            with Mount(rclone, "store:many", directory, more):
                for name in (listing, again):
                    with self.watched() as watched:
                        listed(directory, self.options.names)
                    self.step(name, program, watched)
        for bucket in ("mount", "many"):
            self.ceph.store.remove_bucket(bucket)

    def tag(self):
        return next((tag for _, _, tag in self.ceph.store.objects("mount", f"source/{LARGE}")), None)

    def arrived(self, limit=3600):
        """Until the store has every file at its size: a mount does not tell when it has sent all."""
        wanted = sum(size for _, size in sizes(self.source))
        end = time.monotonic() + limit
        while sum(size for _, size, _ in self.ceph.store.objects("mount")) < wanted:
            if time.monotonic() > end:
                raise RuntimeError("rclone's mount has not sent all in an hour")
            time.sleep(0.2)


def sizes(top):
    for parent, _, names in os.walk(top):
        for name in names:
            path = os.path.join(parent, name)
            yield path, os.path.getsize(path)


def listed(top, expected):
    done = subprocess.run(["ls", "-lR", top], stdout=subprocess.PIPE, check=True, text=True)
    count = sum(line.startswith("-") for line in done.stdout.splitlines())
    if count != expected:
        raise RuntimeError(f"{count} files are listed, not {expected}")
