"""What a store, or what stands before it, can do wrong, and which requests it is done to.

A fault is an object with `kind` and, to choose requests, any of
  method    as in `"PUT"`
  path      a regular expression that is found somewhere in the path, without the query
  is        the kind of request, as the counters call it: `"list"`, `"get range"`, `"put if absent"`
  every     only each so many-th of those
  skip      not the first so many
  times     no more than so many
The first fault that matches a request is done to it. Kinds, with what else they take:
  cut            the answer ends after `after` bytes of its body (half of it); with `reset` true by RST
  lost           the store does what it is asked, but no byte of its answer arrives
  hang           the connection stays open, and no answer ever comes
  delay          the answer takes `milliseconds` (1000) more
  slow-down      503 SlowDown; nothing is done
  error          500 InternalError (or `status` and `code`); nothing is done
  html           `status` (200) and a page in HTML; nothing is done
  redirect       `status` (301 or 307) to `location`; nothing is done
  skew           403 RequestTimeTooSkewed; nothing is done
  length         Content-Length is off by `by` bytes (10); the connection ends after the body
  corrupt        a byte in the middle of the answer's body is another
  corrupt-put    a byte in the middle of the request's body is another
  unconditional  `If-None-Match` is not heard: the put replaces
"""

import re

LOCAL = {"slow-down", "error", "html", "redirect", "skew"}
KINDS = LOCAL | {"cut", "lost", "hang", "delay", "length", "corrupt", "corrupt-put", "unconditional"}
COMMON = {"kind", "method", "path", "is", "every", "skip", "times"}
OPTIONS = {
    "cut": {"after", "reset"}, "lost": {"reset"}, "delay": {"milliseconds"}, "error": {"status", "code"},
    "html": {"status"}, "redirect": {"status", "location"}, "length": {"by"}}


class Wrong(Exception):
    pass


class Fault:
    def __init__(self, rule):
        self.kind = rule.get("kind")
        if self.kind not in KINDS:
            raise Wrong(f"there is no fault {self.kind!r}; known are {', '.join(sorted(KINDS))}")
        if unknown := rule.keys() - COMMON - OPTIONS.get(self.kind, set()):
            raise Wrong(f"the fault {self.kind!r} has no {', '.join(sorted(unknown))}")
        self.rule = rule
        self.path = re.compile(rule.get("path", ""))
        self.seen = self.done = 0

    def option(self, name, default):
        return self.rule.get(name, default)

    def takes(self, request):
        rule = self.rule
        if rule.get("method", request.method) != request.method or rule.get("is", request.kind) != request.kind:
            return False
        if not self.path.search(request.path):
            return False
        if self.kind == "unconditional" and "if-none-match" not in request.headers:
            return False
        self.seen += 1
        counted = self.seen - rule.get("skip", 0)
        if counted <= 0 or counted % rule.get("every", 1) or self.done >= rule.get("times", float("inf")):
            return False
        self.done += 1
        return True


class Faults:
    def __init__(self):
        self.faults = []

    def set(self, rules):
        if not isinstance(rules, list) or not all(isinstance(rule, dict) for rule in rules):
            raise Wrong("faults are given as a list of objects")
        self.faults = [Fault(rule) for rule in rules]

    def pick(self, request):
        return next((fault for fault in self.faults if fault.takes(request)), None)

    def report(self):
        return [dict(fault.rule, done=fault.done) for fault in self.faults]


def answer(fault, request):
    """The bytes that are answered in the place of the store, for the kinds in LOCAL."""
    kind, headers = fault.kind, {}
    status = fault.option("status", {"slow-down": 503, "html": 200, "redirect": 301, "skew": 403}.get(kind, 500))
    code = {"slow-down": "SlowDown", "skew": "RequestTimeTooSkewed",
            "redirect": "PermanentRedirect" if status == 301 else "TemporaryRedirect"}.get(kind)
    if kind == "error":
        code = fault.option("code", "InternalError")
    if kind == "redirect":
        headers["Location"] = fault.option("location", f"http://elsewhere.invalid{request.path}")
    if kind == "html":
        headers["Content-Type"] = "text/html; charset=utf-8"
        body = "<!DOCTYPE html>\n<html><head><title>Welcome</title></head><body><p>Please log in.</p></body></html>\n"
    else:
        headers["Content-Type"] = "application/xml"
        body = (f'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{code}</Code><Message>made up by the proxy'
                f"</Message><Resource>{request.path}</Resource><RequestId>tx0</RequestId></Error>")
    body = body.encode()
    headers["Content-Length"] = str(len(body))
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    head = f"HTTP/1.1 {status} Made-Up\r\n{lines}\r\n".encode()
    return status, head + (b"" if request.method == "HEAD" else body)
