"""What tests of S3 need around them, started and ended: a Ceph, proxies before it, and a client of their own."""

import http.client
import json
import os
import subprocess
import sys
import urllib.parse
import xml.etree.ElementTree as XML

import sigv4

HERE = os.path.dirname(os.path.abspath(__file__))


class Unusable(Exception):
    """A service did not start, or refused; the text says why."""


class Ceph:
    """`with Ceph(directory) as ceph`; ended and removed after it."""

    def __init__(self, directory, port=0, memory=4, file=None):
        self.directory = directory
        self.words = (["--file", str(file)] if file else ["--memory", str(memory)]) + [directory, str(port)]

    def __enter__(self):
        line = self.call("up", *self.words)
        self.environment = dict(pair.split("=", 1) for pair in line.split())
        self.url = self.environment["AWS_ENDPOINT_URL"]
        self.keys = (self.environment["AWS_ACCESS_KEY_ID"], self.environment["AWS_SECRET_ACCESS_KEY"])
        self.region = self.environment["AWS_REGION"]
        self.store = Store(self.url, self.keys, self.region)
        return self

    def __exit__(self, *_):
        self.call("down", self.directory)

    def call(self, *words):
        # In a session of its own: who presses Control-C means this program, which then ends it in order.
        process = subprocess.Popen([os.path.join(HERE, "ceph"), *words], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
        try:
            told, errors = process.communicate()
        except BaseException:
            if words[0] == "up":
                process.terminate()
            process.wait()
            raise
        if process.returncode != 0:
            raise Unusable(f"`ceph {words[0]}`: {errors.strip()}")
        return told

    # The gateway's process alone; what is stored stays.
    def kill_gateway(self):
        self.call("kill-gateway", self.directory)

    def start_gateway(self):
        self.call("start-gateway", self.directory)

    def credentials(self):
        """For the daemon's environment, with nothing of the user's own between it and the store."""
        keys = {name: self.environment[name] for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")}
        return {**keys, "AWS_SESSION_TOKEN": "", "no_proxy": "*", "NO_PROXY": "*"}

    def backend(self, bucket, prefix="account", endpoint=None):
        query = urllib.parse.urlencode({"endpoint": endpoint or self.url, "region": self.region}, safe=":/")
        return f"s3://{bucket}/{prefix}?{query}"


class Proxy:
    """`with Proxy(ceph, round_trip=50) as proxy`."""

    def __init__(self, ceph, round_trip=0):
        self.ceph, self.round_trip = ceph, round_trip

    def __enter__(self):
        self.process = subprocess.Popen(
            [sys.executable, os.path.join(HERE, "slow-proxy"), "--store", self.ceph.url, "--round-trip",
             str(self.round_trip), "--keys", ":".join(self.ceph.keys), "--with-parent"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        if not line:
            raise Unusable("the proxy did not start")
        self.ports = json.loads(line)
        self.url = f"http://127.0.0.1:{self.ports['listen']}"
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def ask(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.ports["control"], timeout=60)
        try:
            connection.request(method, path, body=None if body is None else json.dumps(body))
            answer = connection.getresponse()
            told = json.loads(answer.read())
        finally:
            connection.close()
        if answer.status != 200:
            raise Unusable(told["error"])
        return told

    def counters(self):
        return self.ask("GET", "/counters")

    def reset(self):
        return self.ask("POST", "/reset")

    def requests(self):
        return self.ask("GET", "/requests")

    def faults(self, *rules):
        return self.ask("PUT", "/faults", list(rules))

    def set_round_trip(self, milliseconds):
        self.ask("PUT", "/round-trip", milliseconds)


class Store:
    """The few calls that tests make themselves, past any proxy."""

    def __init__(self, url, keys, region):
        self.host, self.keys, self.region = urllib.parse.urlsplit(url).netloc, keys, region
        self.connection = http.client.HTTPConnection(self.host, timeout=60)

    def call(self, method, path, query="", headers=None, body=b""):
        headers = {"host": self.host, **(headers or {})}
        sigv4.authorization(self.keys, self.region, method, path, query, headers)
        target = path + (f"?{query}" if query else "")
        for is_last in (False, True):
            try:
                self.connection.request(method, target, body=body, headers=headers)
                answer = self.connection.getresponse()
                return answer.status, answer.read()
            except (http.client.HTTPException, OSError):
                # The gateway ends connections that nobody used for long.
                self.connection.close()
                if is_last:
                    raise

    def must(self, *words, **named):
        status, data = self.call(*words, **named)
        if not 200 <= status < 300:
            raise Unusable(f"{words[0]} {words[1]}: {status} {data[:500].decode(errors='replace')}")
        return data

    def make_bucket(self, name):
        self.must("PUT", f"/{name}")

    def objects(self, bucket, prefix=""):
        """Keys with their sizes and entity tags."""
        after = ""
        while True:
            query = urllib.parse.urlencode({"list-type": 2, "prefix": prefix, "start-after": after}, quote_via=urllib.parse.quote)
            root = XML.fromstring(self.must("GET", f"/{bucket}", sigv4.canonical_query(query)))
            for parent in root.iter():
                # With or without a namespace, as the store likes.
                parent.tag = parent.tag.rpartition("}")[2]
            for found in root.iter("Contents"):
                after = found.findtext("Key")
                yield after, int(found.findtext("Size")), found.findtext("ETag")
            if root.findtext("IsTruncated") != "true":
                return

    def empty(self, bucket, prefix=""):
        for key, _, _ in list(self.objects(bucket, prefix)):
            self.must("DELETE", f"/{bucket}/{sigv4.quoted(key, '/')}")

    def remove_bucket(self, name):
        self.empty(name)
        self.must("DELETE", f"/{name}")
