"""How long the mount takes to answer, and how long the other device to see a change."""

import os
import statistics
import threading
import time


def percentile(values, part):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))]


def timed(call, *arguments):
    start = time.perf_counter()
    try:
        call(*arguments)
    except FileNotFoundError:
        pass
    return time.perf_counter() - start


class Probes(threading.Thread):
    """Asks a mount for one thing after the other until it is told to stop: a `stat` that the kernel answers,
    one that the daemon has to (of a name that was never asked for), and an attribute of the daemon's."""

    def __init__(self, directory, file):
        super().__init__(daemon=True)
        self.directory, self.file = directory, file
        self.times = {"stat, known to the kernel": [], "stat, asked of the daemon": [],
                      "getxattr": []}
        self.ended = threading.Event()
        self.count = 0

    def run(self):
        known, asked, attribute = self.times.values()
        while not self.ended.is_set():
            self.count += 1
            known.append(timed(os.stat, self.file))
            asked.append(timed(os.stat, os.path.join(self.directory, f"none-{id(self)}-{self.count}")))
            attribute.append(timed(os.getxattr, self.file, "user.ubiquity.downloadingStatus"))
            time.sleep(0.002)

    def finish(self):
        self.ended.set()
        self.join()
        return {name: (statistics.median(values), percentile(values, 0.99))
                for name, values in self.times.items() if values}


def propagation(a, b, rounds=50):
    """Seconds from the close of a new file on `a` until a program on `b` reads all of it."""
    result = []
    for index in range(rounds):
        name = f"news-{index}"
        content = os.urandom(4096)
        with open(os.path.join(a.documents, name), "wb") as file:
            file.write(content)
        start = time.perf_counter()
        while True:
            try:
                with open(os.path.join(b.documents, name), "rb") as file:
                    if file.read() == content:
                        break
            except OSError:
                pass
            time.sleep(0.002)
        result.append(time.perf_counter() - start)
        time.sleep(0.2)
    return statistics.median(result), percentile(result, 0.99)
