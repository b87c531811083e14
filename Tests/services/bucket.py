#!/usr/bin/env python3
"""A bucket in memory for tests without a Ceph: `bucket.py KEYS` writes its URL, and serves until it ends.

KEYS is a file with the access keys that it knows, one a line; it is read anew for each request. Signatures are
not checked. Objects have at most one part.
"""

import http.server
import re
import sys
import threading
import urllib.parse
from xml.sax.saxutils import escape

objects = {}
lock = threading.Lock()


class Request(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def reply(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def refuse(self, status, code):
        self.reply(status, f"<Error><Code>{code}</Code></Error>".encode())

    def list(self, query):
        prefix, after = query.get("prefix", ""), query.get("start-after", "")
        count = int(query.get("max-keys", 1000))
        keys = sorted(key for key in objects if key.startswith(prefix) and key > after)
        rows = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(objects[key])}</Size></Contents>" for key in keys[:count])
        truncated = "true" if len(keys) > count else "false"
        self.reply(
            200, f"<ListBucketResult><IsTruncated>{truncated}</IsTruncated>{rows}</ListBucketResult>".encode())

    def get(self, key):
        if key not in objects:
            return self.refuse(404, "NoSuchKey")
        whole = objects[key]
        span = re.match(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if not span:
            return self.reply(200, whole)
        first, last = int(span[1]), min(int(span[2]), len(whole) - 1)
        if first > last:
            return self.refuse(416, "InvalidRange")
        self.reply(206, whole[first : last + 1], Content_Range=f"bytes {first}-{last}/{len(whole)}")

    def put(self, key, body):
        if "If-None-Match" in self.headers and key in objects:
            return self.refuse(412, "PreconditionFailed")
        objects[key] = body
        self.reply(200)

    def serve(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with open(sys.argv[1]) as file:
            known = file.read().split()
        given = re.search(r"Credential=([^/]*)/", self.headers.get("Authorization", ""))
        url = urllib.parse.urlsplit(self.path)
        key = urllib.parse.unquote(url.path).lstrip("/").partition("/")[2]
        with lock:
            if not given or given[1] not in known:
                self.refuse(403, "InvalidAccessKeyId")
            elif self.command == "PUT":
                self.put(key, body)
            elif self.command == "DELETE":
                objects.pop(key, None)
                self.reply(204)
            elif key:
                self.get(key)
            else:
                self.list(dict(urllib.parse.parse_qsl(url.query)))

    do_GET = do_PUT = do_DELETE = serve

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Request)
server.daemon_threads = True
print(f"http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
