"""The program itself: an account in a directory, a device that sends and one that receives."""

import json
import os
import signal
import subprocess
import time

from peers import run

CONTAINER = "iCloud.org.example.bench"


class Device:
    def __init__(self, binary, place, name, backend, secret=None):
        self.binary, self.state = binary, os.path.join(place, f"state-{name}")
        self.mountpoint = os.path.join(place, f"mount-{name}")
        self.environment = {"UBIQUITYFS_STATE": self.state}
        os.mkdir(self.mountpoint)
        words = ["account", "sign-in", "--quiet", "--device-name", name, "--backend", f"file://{backend}"]
        self.run(*words, *(["--secret-file", secret] if secret else []))
        self.daemon = self.status()["daemon"]["pid"]

    def run(self, *words):
        return run([self.binary, *words], self.environment)

    def mount(self):
        self.run("mount", "--quiet", CONTAINER, self.mountpoint)

    @property
    def documents(self):
        return os.path.join(self.mountpoint, "Documents")

    def status(self):
        return json.loads(self.run("status", "--json"))

    def traffic(self):
        traffic = self.status()["traffic"]
        return traffic["bytesUploaded"] + traffic["bytesDownloaded"]

    def memory(self):
        """The most that the daemon held, in MiB."""
        with open(f"/proc/{self.daemon}/status") as file:
            for line in file:
                if line.startswith("VmHWM"):
                    return int(line.split()[1]) / 1024
        return 0

    def close(self):
        subprocess.run([self.binary, "unmount", self.mountpoint], env={**os.environ, **self.environment},
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            os.kill(self.daemon, signal.SIGTERM)
            for _ in range(600):
                os.kill(self.daemon, 0)
                time.sleep(0.05)
        except ProcessLookupError:
            pass


class Ubiquity:
    name = "ubiquityfs"
    command = "true"

    def __init__(self, source, place, binary):
        self.binary, self.place, self.original = binary, place, source
        self.backend = os.path.join(place, "cloud")
        self.b = None
        self.a = Device(binary, place, "a", self.backend)
        self.a.mount()
        self.source = os.path.join(self.a.documents, "source")
        self.copying = None

    def fill(self):
        """Copies the data into the mount while nothing is sent; it is on the disk afterwards."""
        self.a.run("sync", "--wait")
        self.a.run("offline", "on")
        start = time.monotonic()
        run(["cp", "-a", self.original, self.source])
        self.copying = time.monotonic() - start

    def initial(self):
        before = self.a.traffic()
        self.a.run("offline", "off")
        self.a.run("sync", "--wait")
        return lambda: self.a.traffic() - before

    def again(self):
        """`before` is taken when the change begins: the daemon sends by itself as soon as it is closed."""
        before = self.before
        self.a.run("sync", "--wait")
        return lambda: self.a.traffic() - before

    def note(self):
        self.before = self.a.traffic()

    def second_device(self):
        secret = os.path.join(self.place, "secret")
        with open(secret, "w") as file:
            file.write(self.a.run("account", "secret"))
        os.chmod(secret, 0o600)
        self.b = Device(self.binary, self.place, "b", self.backend, secret)

    def appear(self):
        """Until every name is there on the new device, and none of the content."""
        self.b.mount()
        self.b.run("sync", "--wait")
        count = sum(len(files) for _, _, files in os.walk(self.b.documents))
        expected = sum(len(files) for _, _, files in os.walk(self.source))
        if count != expected:
            raise RuntimeError(f"{count} files instead of {expected} on the second device")

    def download(self):
        before = self.b.traffic()
        self.b.run("download", self.b.documents)
        return lambda: self.b.traffic() - before

    def close(self):
        for device in (self.a, self.b):
            if device:
                device.close()
