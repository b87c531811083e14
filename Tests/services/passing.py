"""One connection through the proxy: its requests go up, its answers come down, each half a round trip later."""

import asyncio
import collections
import socket
import sys

import faults
import sigv4
from delaying import Link, Source
from heads import LONGEST_HEAD, Answer, Chunks, Malformed, Request

GONE = (ConnectionError, OSError, Malformed)


def prepared(sock):
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


class Passage:
    def __init__(self, proxy, client):
        self.proxy, self.loop = proxy, proxy.loop
        self.client, self.store = prepared(client), None
        self.down, self.up = Link(self.loop, self.client), None
        # Bytes of a connection wait for its handshake, which takes a round trip.
        self.ready = self.loop.time() + proxy.round_trip
        self.pending = collections.deque()
        self.idle = asyncio.Event()
        self.idle.set()
        self.entries = set()

    async def run(self):
        self.proxy.counters.connected()
        tasks = [asyncio.create_task(work) for work in (self.requests(), self.down.run())]
        self.tasks = tasks
        try:
            # Over as soon as the client has all it gets; its requests ending is not the end of the answers.
            await tasks[1]
        except GONE:
            pass
        finally:
            for task in self.tasks:
                task.cancel()
            results = await asyncio.gather(*self.tasks, return_exceptions=True)
            for result in results:
                if isinstance(result, Exception) and not isinstance(result, GONE):
                    print(f"slow-proxy: {result!r}", file=sys.stderr, flush=True)
            for entry in self.entries:
                self.proxy.counters.end(entry, None, self.loop.time())
            self.client.close()
            if self.store:
                self.store.close()
            self.proxy.counters.disconnected()

    def later(self, times=1):
        return max(self.loop.time(), self.ready) + self.proxy.round_trip / 2 * times

    async def connect(self):
        store = prepared(socket.socket())
        self.store = store
        await self.loop.sock_connect(store, self.proxy.store)
        self.up = Link(self.loop, store)
        self.tasks += [asyncio.create_task(self.guarded(work)) for work in (self.up.run(), self.answers())]

    async def guarded(self, work):
        """What becomes of the connection to the store, becomes of the client's."""
        try:
            await work
        except GONE:
            self.down.end(self.later(), reset=True)

    async def requests(self):
        source = Source(self.loop, self.client)
        try:
            while raw := await source.head(LONGEST_HEAD):
                request = Request(raw)
                await self.idle.wait()
                entry = self.proxy.counters.begin(request)
                self.entries.add(entry)
                fault = self.proxy.faults.pick(request)
                entry.fault = fault and fault.kind
                await self.one(source, request, entry, fault)
        except GONE:
            self.down.end(self.later(), reset=True)
            return
        if self.up:
            self.up.end(self.later())
        else:
            self.down.end(self.later())

    async def one(self, source, request, entry, fault):
        kind = fault and fault.kind
        if kind in faults.LOCAL or kind == "hang":
            await self.instead(source, request, entry, fault)
            return
        if not self.up:
            await self.connect()
        self.pending.append((request, entry, fault))
        self.idle.clear()
        length = request.length()
        raw = request.raw
        if kind == "unconditional":
            raw = self.proxy.unconditional(request)
        await self.up.put(raw, self.later())
        place = length // 2 if kind == "corrupt-put" and length else None
        async for data in source.body(length, Chunks):
            data, place = flipped(data, place)
            entry.up += len(data)
            await self.up.put(data, self.later())

    async def instead(self, source, request, entry, fault):
        """Without the store. Who waits to be told to send the body gets the answer first and is rid of then."""
        waits = request.headers.get("expect", "").lower() == "100-continue"
        if not waits:
            async for data in source.body(request.length(), Chunks):
                entry.up += len(data)
        if fault.kind == "hang":
            while await source.more():
                pass
            self.down.end(self.later())
            return
        status, data = faults.answer(fault, request)
        at = self.later(2)
        entry.down = len(data)
        self.proxy.counters.end(entry, status, at)
        await self.down.put(data, at)
        if waits:
            self.down.end(at)

    async def answers(self):
        source = Source(self.loop, self.store)
        while raw := await source.head(LONGEST_HEAD):
            answer = Answer(raw)
            if answer.status < 200:
                await self.down.put(raw, self.later())
                continue
            if not self.pending:
                break
            request, entry, fault = self.pending[0]
            goes_on = await self.passed(source, request, answer, entry, fault)
            self.pending.popleft()
            self.proxy.counters.end(entry, answer.status, self.later())
            self.entries.discard(entry)
            self.idle.set()
            if not goes_on:
                return
        self.down.end(self.later(), reset=bool(self.pending))

    async def passed(self, source, request, answer, entry, fault):
        """An answer on its way to the client. False when the connection ends with it."""
        kind, raw = fault and fault.kind, answer.raw
        length = answer.body(request.method)
        goes_on, extra, left, place = length != -1, 0, None, None
        if kind == "lost":
            self.down.end(self.later(), fault.option("reset", False))
            return False
        if kind == "delay":
            extra = fault.option("milliseconds", 1000) / 1000
        if kind == "cut":
            left = fault.option("after", max(0, length or 0) // 2)
        if kind == "corrupt" and length and length > 0:
            place = length // 2
        if kind == "length" and length is not None and length >= 0:
            raw = answer.replaced("content-length", str(max(0, length + fault.option("by", 10))))
            goes_on = False
        entry.down += len(raw)
        await self.down.put(raw, self.later() + extra)
        async for data in source.body(length, Chunks):
            data, place = flipped(data, place)
            if left is not None:
                data = data[:left]
                left -= len(data)
            entry.down += len(data)
            await self.down.put(data, self.later() + extra)
            if left == 0:
                break
        if kind == "cut" or not goes_on:
            self.down.end(self.later() + extra, kind == "cut" and fault.option("reset", False))
            return False
        return True


def flipped(data, place):
    """With the byte at `place` another one, and where that is in what comes after; None where there is none."""
    if place is None:
        return data, None
    if place >= len(data):
        return data, place - len(data)
    return data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1:], None


def without_condition(request, keys):
    """A put as it would be had nobody said `If-None-Match`, signed anew where that was signed."""
    raw = request.replaced("if-none-match", None)
    if "if-none-match" not in request.headers.get("authorization", ""):
        return raw
    signed = keys and sigv4.signed_again(
        keys, request.method, request.path, request.query, request.headers, "if-none-match")
    if not signed:
        raise Malformed("a put cannot be signed again: give --keys ACCESS:SECRET of who sends it")
    request.raw = raw
    return request.replaced("authorization", signed)
