"""Bytes that arrive later than they were sent, as many of them in between as there may be."""

import asyncio
import collections
import socket
import struct

PIECE = 1 << 18
# On the way at once. At 25 ms each way this is more than two gigabytes a second.
MOST = 64 << 20


class Link:
    """One direction. What is put into it is sent on to the socket when its time has come, in order."""

    def __init__(self, loop, target):
        self.loop, self.target = loop, target
        self.queue, self.size = collections.deque(), 0
        self.filled, self.room = asyncio.Event(), asyncio.Event()
        self.room.set()

    async def put(self, data, at):
        self.queue.append((at, data))
        self.size += len(data)
        self.filled.set()
        if self.size > MOST:
            self.room.clear()
            await self.room.wait()

    def end(self, at, reset=False):
        """No more bytes come: the socket is told so, or the connection is broken off."""
        self.queue.append((at, reset))
        self.filled.set()

    async def run(self):
        """Until the end has come. Ends too when the target is gone."""
        while True:
            while not self.queue:
                self.filled.clear()
                await self.filled.wait()
            at, data = self.queue.popleft()
            wait = at - self.loop.time()
            if wait > 0:
                await asyncio.sleep(wait)
            if data is True:
                self.target.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                return
            if data is False:
                self.target.shutdown(socket.SHUT_WR)
                return
            await self.loop.sock_sendall(self.target, data)
            self.size -= len(data)
            if not self.room.is_set() and self.size < MOST // 2:
                self.room.set()


class Source:
    """Bytes of a socket: heads, and bodies piece by piece."""

    def __init__(self, loop, sock):
        self.loop, self.sock, self.rest = loop, sock, b""

    async def more(self):
        """Empty at the end."""
        if self.rest:
            data, self.rest = self.rest, b""
            return data
        return await self.loop.sock_recv(self.sock, PIECE)

    async def head(self, longest):
        """With the empty line; None where the connection ends instead."""
        data = b""
        while (end := data.find(b"\r\n\r\n")) < 0:
            piece = await self.more()
            if not piece or len(data) > longest:
                return None
            data += piece
        self.rest = data[end + 4:]
        return data[:end + 4]

    async def body(self, length, chunks):
        """Its pieces. `length` as `Head.length` tells it; -1 is up to the end. `chunks` makes who follows chunks."""
        if length is None:
            follower = chunks()
            while not follower.ended:
                data = await self.more()
                if not data:
                    raise ConnectionError("the body ends early")
                taken = follower.take(data)
                self.rest = data[taken:]
                yield data[:taken]
            return
        while length:
            data = await self.more()
            if not data:
                if length < 0:
                    return
                raise ConnectionError("the body ends early")
            if 0 < length < len(data):
                data, self.rest = data[:length], data[length:]
            if length > 0:
                length -= len(data)
            yield data
