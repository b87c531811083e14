"""Stores that a drill copies, sets back and writes to past any device."""

import os
import shutil
import urllib.parse


class DirectoryCloud:
    """Objects never change in place, so a copy is a tree of links."""

    def __init__(self, path, copies):
        self.path, self.copies = path, copies

    def top(self, copy):
        return os.path.join(self.copies, copy) if copy else self.path

    def keys(self, copy=None):
        top, found = self.top(copy), []
        for directory, _, files in os.walk(top):
            for name in files:
                key = os.path.relpath(os.path.join(directory, name), top)
                if not key.startswith("tmp/"):
                    found.append(key)
        return sorted(found)

    def get(self, key, copy=None):
        with open(os.path.join(self.top(copy), key), "rb") as file:
            return file.read()

    def put(self, key, body):
        path = os.path.join(self.path, key)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path + ".put", "wb") as file:
            file.write(body)
        os.rename(path + ".put", path)

    def delete(self, key):
        os.unlink(os.path.join(self.path, key))

    def copy(self, copy="copy"):
        shutil.rmtree(self.top(copy), ignore_errors=True)
        for key in self.keys():
            target = os.path.join(self.top(copy), key)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            try:
                os.link(os.path.join(self.path, key), target)
            except FileNotFoundError:
                pass

    def restore(self, copy="copy"):
        wanted = self.keys(copy)
        for key in sorted(set(self.keys()) - set(wanted), reverse=True):
            self.delete(key)
        for key in wanted:
            source, target = os.path.join(self.top(copy), key), os.path.join(self.path, key)
            if os.path.exists(target) and os.path.samefile(source, target):
                continue
            os.makedirs(os.path.dirname(target), exist_ok=True)
            os.link(source, target + ".restored")
            os.rename(target + ".restored", target)


class CephCloud:
    """Copies are here in memory."""

    def __init__(self, store, bucket, prefix="account/"):
        self.store, self.bucket, self.prefix = store, bucket, prefix
        self.copies = {}

    def call(self, method, key, body=b""):
        path = f"/{self.bucket}/{urllib.parse.quote(self.prefix + key)}"
        return self.store.must(method, path, body=body)

    def tags(self):
        return {key.removeprefix(self.prefix): tag
                for key, _, tag in self.store.objects(self.bucket, self.prefix)}

    def keys(self, copy=None):
        return sorted(self.copies[copy] if copy else self.tags())

    def get(self, key, copy=None):
        return self.copies[copy][key][1] if copy else self.call("GET", key)

    def put(self, key, body):
        self.call("PUT", key, body)

    def delete(self, key):
        self.call("DELETE", key)

    def copy(self, copy="copy"):
        former = self.copies.get(copy, {})
        self.copies[copy] = {
            key: (tag, former[key][1] if former.get(key, ("",))[0] == tag else self.get(key))
            for key, tag in self.tags().items()}

    def restore(self, copy="copy"):
        there, wanted = self.tags(), self.copies[copy]
        for key in sorted(there.keys() - wanted.keys(), reverse=True):
            self.delete(key)
        for key, (tag, body) in sorted(wanted.items()):
            if there.get(key) != tag:
                self.put(key, body)
