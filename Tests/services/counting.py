"""What went through the proxy: counts by kind, and a log of the last requests."""

import collections
import itertools
import time

KEPT = 200_000


class Entry:
    """One request, from its first byte until its answer is with the client."""

    __slots__ = ("number", "kind", "method", "path", "range", "start", "end", "status", "up", "down", "fault")

    def __init__(self, number, request):
        self.number, self.kind, self.method, self.path = number, request.kind, request.method, request.path
        self.range = request.headers.get("range")
        self.start, self.end, self.status, self.fault = time.monotonic(), None, None, None
        self.up, self.down = len(request.raw), 0

    def told(self):
        return {name: getattr(self, name) for name in self.__slots__}


class Counters:
    def __init__(self):
        self.numbers = itertools.count(1)
        self.open = self.running = 0
        self.reset()

    def reset(self):
        self.since = time.monotonic()
        self.log = collections.deque(maxlen=KEPT)
        self.connections, self.most_open, self.most_running = 0, self.open, self.running

    def begin(self, request):
        entry = Entry(next(self.numbers), request)
        self.log.append(entry)
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        return entry

    def end(self, entry, status, at):
        if entry.end is None:
            self.running -= 1
            entry.status, entry.end = status, at

    def connected(self):
        self.connections += 1
        self.open += 1
        self.most_open = max(self.most_open, self.open)

    def disconnected(self):
        self.open -= 1

    def report(self):
        kinds = {}
        for entry in self.log:
            kind = kinds.setdefault(entry.kind, {"requests": 0, "bytesUp": 0, "bytesDown": 0, "statuses": {}})
            kind["requests"] += 1
            kind["bytesUp"] += entry.up
            kind["bytesDown"] += entry.down
            status = str(entry.status or "none")
            kind["statuses"][status] = kind["statuses"].get(status, 0) + 1
        return {
            "seconds": time.monotonic() - self.since, "connections": self.connections, "open": self.open,
            "running": self.running, "mostOpen": self.most_open, "mostAtOnce": self.most_running,
            "requests": sum(kind["requests"] for kind in kinds.values()),
            "bytesUp": sum(kind["bytesUp"] for kind in kinds.values()),
            "bytesDown": sum(kind["bytesDown"] for kind in kinds.values()), "kinds": kinds}
