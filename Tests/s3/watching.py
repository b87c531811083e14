"""What a step cost: its time, and the requests that went through a proxy meanwhile."""

import time

READING = ("get", "get range")


class Watched:
    """`with Watched(proxy) as step:` and then its figures."""

    def __init__(self, proxy):
        self.proxy = proxy

    def __enter__(self):
        self.proxy.reset()
        self.start = time.monotonic()
        return self

    def stop(self):
        """The clock, before the step is over otherwise."""
        self.seconds = time.monotonic() - self.start

    def __exit__(self, failure, *_):
        if not hasattr(self, "seconds"):
            self.stop()
        if failure:
            return
        self.log = self.proxy.requests()
        report = self.proxy.counters()
        self.requests, self.most = report["requests"], report["mostAtOnce"]
        self.connections = report["mostOpen"]
        self.up, self.down = report["bytesUp"], report["bytesDown"]
        self.kinds = {kind: counts["requests"] for kind, counts in report["kinds"].items()}

    def reads(self):
        """Requests for content that began before the clock was stopped."""
        end = self.start + self.seconds
        return [entry for entry in self.log if entry["kind"] in READING and entry["start"] < end]

    def rounds(self):
        """How many of those had to wait for one another: the most of which none overlaps the next."""
        count, last = 0, float("-inf")
        for entry in sorted(self.reads(), key=lambda entry: entry["end"] or float("inf")):
            if entry["start"] >= last:
                count, last = count + 1, entry["end"] or float("inf")
        return count

    def told(self):
        return {"seconds": self.seconds, "requests": self.requests, "bytesUp": self.up, "bytesDown": self.down,
                "mostAtOnce": self.most, "connections": self.connections, "kinds": self.kinds}


def quiet(proxy, seconds=0.5, limit=120):
    """Waits until nothing has been asked for so long, as read-ahead may go on after its reader."""
    end = time.monotonic() + limit
    last, since = None, time.monotonic()
    while time.monotonic() < end:
        report = proxy.counters()
        now = (report["requests"], report["bytesDown"], report["bytesUp"])
        if now != last or report["running"]:
            last, since = now, time.monotonic()
        elif time.monotonic() - since >= seconds:
            return
        time.sleep(0.05)
    raise RuntimeError(f"requests do not end: {proxy.counters()}")
