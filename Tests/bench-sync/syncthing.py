"""Syncthing between two instances on this machine, each with a directory and a configuration of its own."""

import json
import os
import re
import socket
import subprocess
import time
import urllib.request
import xml.etree.ElementTree as XML

from peers import run


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Instance:
    def __init__(self, home, folder):
        self.home, self.folder = home, folder
        self.gui, self.listen = free_port(), free_port()
        run(["syncthing", "generate", "--home", home, "--no-default-folder"])
        self.id = run(["syncthing", "--home", home, "--device-id"]).strip().splitlines()[-1]
        with open(os.path.join(home, "config.xml")) as file:
            self.key = re.search(r"<apikey>(.*?)</apikey>", file.read()).group(1)
        self.process = None

    def configure(self, other):
        path = os.path.join(self.home, "config.xml")
        tree = XML.parse(path)
        root = tree.getroot()
        for old in root.findall("folder") + root.findall("device"):
            root.remove(old)
        folder = XML.SubElement(
            root, "folder", id="bench", label="bench", path=self.folder, type="sendreceive",
            rescanIntervalS="0", fsWatcherEnabled="false")
        for instance in (self, other):
            XML.SubElement(folder, "device", id=instance.id)
            device = XML.SubElement(root, "device", id=instance.id, compression="metadata")
            XML.SubElement(device, "address").text = f"tcp://127.0.0.1:{instance.listen}"
        root.find("gui/address").text = f"127.0.0.1:{self.gui}"
        options = root.find("options")
        for old in options.findall("listenAddress"):
            options.remove(old)
        XML.SubElement(options, "listenAddress").text = f"tcp://127.0.0.1:{self.listen}"
        for name in ["globalAnnounceEnabled", "localAnnounceEnabled", "relaysEnabled", "natEnabled",
                     "crashReportingEnabled", "startBrowser"]:
            node = options.find(name)
            node = XML.SubElement(options, name) if node is None else node
            node.text = "false"
        tree.write(path)

    def start(self):
        self.process = subprocess.Popen(
            ["syncthing", "serve", "--home", self.home, "--no-browser", "--no-restart", "--no-upgrade"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def ask(self, path, method="GET"):
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.gui}{path}", method=method, headers={"X-API-Key": self.key})
        with urllib.request.urlopen(request, timeout=600) as answer:
            return json.loads(answer.read() or b"null")


class Syncthing:
    name = "syncthing"
    command = "syncthing"

    def __init__(self, source, place):
        self.source, self.target = source, os.path.join(place, "syncthing")
        os.mkdir(self.target)
        os.makedirs(os.path.join(source, ".stfolder"), exist_ok=True)
        os.mkdir(os.path.join(self.target, ".stfolder"))
        self.a = Instance(os.path.join(place, "syncthing-a"), source)
        self.b = Instance(os.path.join(place, "syncthing-b"), self.target)
        self.a.configure(self.b)
        self.b.configure(self.a)

    def start(self):
        """Brings both up and connects them."""
        for instance in (self.a, self.b):
            instance.start()
        for instance in (self.a, self.b):
            self.wait(lambda: instance.ask("/rest/system/status")["myID"] == instance.id)
        self.wait(lambda: self.a.ask("/rest/system/connections")["connections"][self.b.id]["connected"])

    def wait(self, condition, pause=0.01, limit=300):
        end = time.monotonic() + limit
        while time.monotonic() < end:
            try:
                if condition():
                    return
            except OSError:
                pass
            time.sleep(pause)
        raise RuntimeError("syncthing did not come so far in five minutes")

    def moved(self):
        total = self.b.ask("/rest/system/connections")["total"]
        return total["inBytesTotal"] + total["outBytesTotal"]

    def initial(self):
        """From its start: it looks through its directory, and sends."""
        self.start()
        count = sum(len(files) for _, _, files in os.walk(self.source))
        for instance in (self.a, self.b):
            self.wait(lambda: self.has(instance, count))
        return self.moved()

    def has(self, instance, count):
        status = instance.ask("/rest/db/status?folder=bench")
        return status["state"] == "idle" and status["needTotalItems"] == 0 and status["localFiles"] == count

    def again(self):
        before = self.moved()
        self.a.ask("/rest/db/scan?folder=bench", method="POST")

        def is_there():
            # What `a` knows that `b` lacks, by the versions that `b` said it has.
            missing = self.a.ask(f"/rest/db/completion?folder=bench&device={self.b.id}")
            return missing["needBytes"] + missing["needItems"] + missing["needDeletes"] == 0

        self.wait(is_there)
        return self.moved() - before

    def close(self):
        for instance in (self.a, self.b):
            if instance.process:
                instance.process.terminate()
                instance.process.wait()
