"""Heads of HTTP/1.1 requests and answers, and where their bodies end."""

import re
import urllib.parse

LONGEST_HEAD = 1 << 16


class Malformed(Exception):
    pass


class Head:
    def __init__(self, raw):
        self.raw = raw
        self.first, *lines = raw.decode("latin-1").rstrip("\r\n").split("\r\n")
        self.headers = {}
        for line in lines:
            name, colon, value = line.partition(":")
            if not colon:
                raise Malformed(line)
            self.headers[name.strip().lower()] = value.strip()

    def replaced(self, name, value):
        """The bytes with another value of a header, or without it."""
        lines = self.raw.split(b"\r\n")
        found = [line for line in lines if line.partition(b":")[0].strip().lower() == name.encode()]
        for line in found:
            place = lines.index(line)
            lines[place:place + 1] = [] if value is None else [line.partition(b":")[0] + b": " + value.encode("latin-1")]
        return b"\r\n".join(lines)

    def length(self):
        """Of the body: a number, or None where it is in chunks that tell theirs."""
        if "chunked" in self.headers.get("transfer-encoding", "").lower():
            return None
        return int(self.headers.get("content-length", 0))


class Request(Head):
    def __init__(self, raw):
        super().__init__(raw)
        parts = self.first.split(" ")
        if len(parts) != 3:
            raise Malformed(self.first)
        self.method, target, _ = parts
        self.path, _, self.query = target.partition("?")
        self.kind = kind(self.method, self.path, self.query, self.headers)


class Answer(Head):
    def __init__(self, raw):
        super().__init__(raw)
        words = self.first.split(" ", 2)
        if len(words) < 2 or not words[1].isdigit():
            raise Malformed(self.first)
        self.status = int(words[1])

    def body(self, method):
        """As `length`, and -1 where the body ends with the connection."""
        if method == "HEAD" or self.status in (204, 304) or self.status < 200:
            return 0
        if "content-length" not in self.headers and "transfer-encoding" not in self.headers:
            return -1
        return self.length()


def kind(method, path, query, headers):
    """What a request is to S3, in path style."""
    names = {pair.partition("=")[0] for pair in query.split("&") if pair}
    _, _, key = path.lstrip("/").partition("/")
    if not key:
        if method == "GET" and (names <= {"x-id"} and path == "/"):
            return "list buckets"
        if method == "GET" and not names & {"location", "versioning", "acl", "policy", "lifecycle", "uploads"}:
            return "list"
        return {"HEAD": "head bucket", "PUT": "put bucket", "DELETE": "delete bucket",
                "POST": "delete many" if "delete" in names else "post"}.get(method, "other")
    if method == "GET":
        if "uploadId" in names:
            return "list parts"
        return "get range" if "range" in headers else "get"
    if method == "PUT":
        if "partNumber" in names:
            return "put part"
        if "x-amz-copy-source" in headers:
            return "copy"
        return "put if absent" if "if-none-match" in headers else "put"
    if method == "POST":
        return "begin parts" if "uploads" in names else "end parts" if "uploadId" in names else "post"
    if method == "DELETE":
        return "abort parts" if "uploadId" in names else "delete"
    return {"HEAD": "head"}.get(method, "other")


def unquoted(path):
    return urllib.parse.unquote(path)


class Chunks:
    """Follows a body in chunks; `rest` tells how many of the bytes given are of it once it has ended."""

    LINE = re.compile(rb"^([0-9A-Fa-f]+)")

    def __init__(self):
        self.left, self.line, self.is_trailer, self.ended = 0, b"", False, False

    def take(self, data):
        """How many bytes at the start of `data` are of the body."""
        place = 0
        while place < len(data) and not self.ended:
            if self.left:
                step = min(self.left, len(data) - place)
                self.left -= step
                place += step
                continue
            end = data.find(b"\n", place)
            stop = len(data) if end < 0 else end + 1
            self.line += bytes(data[place:stop])
            place = stop
            if end < 0:
                break
            line, self.line = self.line.strip(), b""
            if self.is_trailer:
                self.ended = not line
            elif line:
                found = self.LINE.match(line)
                if not found:
                    raise Malformed(line.decode("latin-1"))
                self.left = int(found.group(1), 16)
                self.is_trailer = self.left == 0
                if self.left:
                    self.left += 2
        return place
