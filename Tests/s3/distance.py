"""What a store that is a round trip away costs: many small files up, first bytes, the middle of a large file, all of
it, and doing nothing."""

import os
import shutil
import time

import material
import ours
import plain
from figures import median
from rclone import Rclone
from watching import Watched, quiet

PART = "With {:g} ms of round trip"
OURS = "ubiquityfs"
FIRST = 4096


class Distance:
    def __init__(self, figures, options, ceph, proxy, place):
        self.figures, self.options, self.ceph, self.proxy = figures, options, ceph, proxy
        self.place = place
        self.part = PART.format(options.round_trip)
        self.trip = options.round_trip / 1000
        os.makedirs(place)

    def run(self):
        ceph, options = self.ceph, self.options
        ceph.store.make_bucket("distance")
        account = ours.account(os.path.join(self.place, "account"), options.program, ceph, self.proxy, "distance")
        try:
            a = account.device("a")
            ours.synced(a)
            self.small_files(a)
            large = self.large_file(a)
            self.first_bytes(a, "evicted", large)
            self.first_bytes(a, "evicted, the daemon new", large, before=ours.restart)
            b = account.device("b")
            ours.synced(b)
            self.first_bytes(b, "never had", os.path.join(b.documents, "large"))
            ours.end(b)
            account.devices.remove(b)
            self.sequential(a, large)
            if options.idle_minutes:
                self.idle(a)
        finally:
            left = account.close(tidy=False)
            if left:
                self.figures.note(f"left behind: {left}")
        ceph.store.remove_bucket("distance")

    def step(self, name, watched, program=OURS, **more):
        self.figures.step(self.part, name, program, watched, **more)

    def median(self, name, key, program=OURS):
        return median(self.figures.values(self.part, name, program, key))

    def small_files(self, a):
        count, size = self.options.files, 20_000
        what = f"{count:,} files of 20 KB"
        for number in range(self.options.rounds):
            source = os.path.join(self.place, "small")
            material.tree(source, count, size)
            quiet(self.proxy)
            with Watched(self.proxy) as watched:
                ours.fill(a, source, f"small-{number}")
                ours.synced(a)
            self.step(f"{what}, from the first copy to the end", watched)
            a.run("offline", "on", "--quiet")
            shutil.rmtree(source)
            material.tree(source, count, size)
            ours.fill(a, source, f"small-{number}-offline")
            os.sync()
            with Watched(self.proxy) as watched:
                a.run("offline", "off", "--quiet")
                ours.synced(a)
            self.step(f"{what}, there before it is online", watched)
            shutil.rmtree(source)
        name = f"{what}, from the first copy to the end"
        self.figures.aim(f"{what} up, time", self.median(name, "seconds"), "<", 20, "s")
        self.figures.aim(f"{what} up, requests", self.median(name, "requests"), "<", 200, "requests")

    def large_file(self, a):
        path = os.path.join(a.documents, "large")
        mebibytes = self.options.mebibytes
        with Watched(self.proxy) as watched:
            material.write(path, mebibytes << 20)
            ours.synced(a)
        self.step(f"a file of {mebibytes} MiB", watched)
        return path

    def first_bytes(self, device, how, large, before=None):
        top = os.path.join(device.documents, "small-0")
        # Each time from another pack, as far as there are others.
        names = [os.path.join(top, f"directory-{index:03}") for index in range(len(os.listdir(top)))]
        files = [os.path.join(name, sorted(os.listdir(name))[0]) for name in names]
        rounds = max(5, self.options.rounds)
        chosen = [files[index * len(files) // rounds] for index in range(rounds)]
        size = os.path.getsize(large)
        for number in range(rounds):
            self.one_read(device, f"first bytes of a file of 20 KB, {how}", chosen[number], 0, before)
            self.one_read(device, f"first bytes of a file of {self.options.mebibytes} MiB, {how}", large, 0, before)
            self.one_read(device, f"4 KiB from the middle of it, {how}", large,
                          size // 2 + number * (size // (4 * rounds)) + 12_345, before)
        for name, limit in ((f"first bytes of a file of 20 KB, {how}", 2),
                            (f"first bytes of a file of {self.options.mebibytes} MiB, {how}", 2),
                            (f"4 KiB from the middle of it, {how}", 3)):
            self.figures.aim(f"{name}: requests one after another", self.worst(name, "oneAfterAnother"), "<=", limit,
                             "round trips")
            self.figures.aim(f"{name}: whole round trips in its time", int(self.median(name, "trips")), "<=", limit,
                             "round trips")

    def worst(self, name, key):
        return max(self.figures.values(self.part, name, OURS, key))

    def one_read(self, device, name, path, start, before):
        if os.stat(path).st_blocks > 1:
            ours.evict(device, path)
        if before:
            before(device)
            ours.synced(device)
        # Names are looked up before: what is measured is content.
        os.stat(path)
        quiet(self.proxy)
        with Watched(self.proxy) as watched:
            if material.read(path, start, FIRST) != FIRST:
                raise RuntimeError(f"{path} is shorter than it was")
            watched.stop()
            quiet(self.proxy)
        self.step(name, watched, oneAfterAnother=watched.rounds(), trips=round(watched.seconds / self.trip, 2))

    def sequential(self, a, large):
        """By turns, the plain tools with as many connections as ours had."""
        size = self.options.mebibytes << 20
        key = f"plain/{os.path.basename(large)}"
        direct = Rclone(self.ceph, self.ceph.url, os.path.join(self.place, "rclone-direct"))
        original = os.path.join(self.place, "plain")
        os.makedirs(original)
        material.write(os.path.join(original, os.path.basename(large)), size)
        direct("copy", original, "store:distance/plain", "--s3-chunk-size", "16M")
        shutil.rmtree(original)
        through = Rclone(self.ceph, self.proxy.url, os.path.join(self.place, "rclone"))
        target = os.path.join(self.place, "read")
        name = f"{self.options.mebibytes} MiB read from start to end"
        for _ in range(self.options.rounds):
            ours.evict(a, large)
            quiet(self.proxy)
            with Watched(self.proxy) as watched:
                if material.read(large) != size:
                    raise RuntimeError("it is shorter than it was")
            self.step(name, watched, connections=watched.connections)
            # Connections of the daemon itself stay open meanwhile, and are not those of the tool.
            connections = max(1, watched.most)
            with Watched(self.proxy) as watched:
                plain.rclone(through, f"store:distance/{key}", target, connections)
            self.step(name, watched, "rclone copy")
            if os.path.getsize(os.path.join(target, os.path.basename(large))) != size:
                raise RuntimeError("rclone's copy is shorter")
            shutil.rmtree(target)
            with Watched(self.proxy) as watched:
                plain.curl(self.proxy.url, self.ceph.keys, self.ceph.region, "distance", key, size, connections)
            if watched.down < size:
                raise RuntimeError("curl got less than all of it")
            self.step(name, watched, "curl, thrown away")
        mine = self.median(name, "seconds")
        for tool in ("rclone copy", "curl, thrown away"):
            self.figures.aim(f"all of it, of the speed of {tool}", self.median(name, "seconds", tool) / mine * 100,
                             ">=", 90, "%")

    def idle(self, a):
        minutes, settling = self.options.idle_minutes, self.options.settle_minutes
        ours.synced(a)
        print(f"nothing is done for {settling:g} minutes, and then for {minutes:g}", flush=True)
        time.sleep(settling * 60)
        with Watched(self.proxy) as watched:
            time.sleep(minutes * 60)
        self.step(f"idle for {minutes:g} minutes", watched)
        self.figures.aim("an idle hour, one device with one container", watched.requests * 60 / minutes, "<", 250,
                         "requests")
