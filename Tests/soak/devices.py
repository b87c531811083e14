"""An account in a directory of its own, and devices that are state directories in it."""

import hashlib
import json
import os
import stat
import subprocess
import time

CONTAINER = "iCloud.org.example.soak"


class Refused(Exception):
    """A command ended with a status other than 0."""

    def __init__(self, words, status, message):
        super().__init__(f"`{' '.join(words)}` ended with {status}: {message.strip()}")
        self.status = status


class Device:
    mount_options = []
    # Most drills that kill a daemon start the next one themselves.
    keeper = "off"

    def __init__(self, account, name):
        self.name = name
        self.account = account
        self.mountpoint = os.path.join(account.root, "mount-" + name)
        self.documents = os.path.join(self.mountpoint, "Documents")
        configuration = os.path.join(account.root, name + ".yaml")
        with open(configuration, "w") as file:
            # Whole trees come and go, and nobody is there to be asked about it.
            file.write("sync: {deletionShare: 1}\n")
        self.environment = dict(
            os.environ, UBIQUITYFS_STATE=os.path.join(account.root, name),
            UBIQUITYFS_CONFIG=configuration, LC_ALL="C",
            UBIQUITYFS_KEEPER=self.keeper, **account.environment)
        os.mkdir(self.mountpoint)
        self.pid = None
        # From here on there may be a daemon that is to be ended.
        account.devices.append(self)
        self.run("account", "sign-in", "--device-name", name, "--quiet", *account.sign_in())
        self.mount()
        account.joined(self)

    def mount(self):
        self.run("mount", "--quiet", *self.mount_options, CONTAINER, self.mountpoint)
        self.pid = self.status()["daemon"]["pid"]

    def run(self, *words, timeout=3600):
        result = subprocess.run(
            [self.account.binary, *words], env=self.environment, capture_output=True, text=True,
            stdin=subprocess.DEVNULL, timeout=timeout)
        if result.returncode != 0:
            raise Refused([self.name, *words], result.returncode, result.stderr)
        return result.stdout

    def status(self):
        return json.loads(self.run("status", "--json"))

    def item(self, path):
        return json.loads(self.run("status", "--json", path))["items"][0]

    def look_for_daemon(self):
        """One that a command started which then failed is this device's too."""
        try:
            with open(os.path.join(self.account.root, self.name, "daemon.lock")) as file:
                pid = int(file.read())
            # After a kill the number may be anybody's.
            if os.path.samefile(f"/proc/{pid}/exe", self.account.binary):
                self.pid = pid
        except (FileNotFoundError, ValueError):
            pass

    def is_alive(self):
        if self.pid is None:
            return False
        try:
            with open(f"/proc/{self.pid}/stat") as file:
                return file.read().rsplit(")", 1)[1].split()[0] != "Z"
        except FileNotFoundError:
            return False


class Account:
    """On a directory beside the state directories, or on another backend, with what its daemons need to use it."""

    def __init__(self, root, binary, backend=None, environment=None):
        self.root = root
        self.binary = binary
        self.backend, self.environment = backend, environment or {}
        self.secret = None
        self.devices = []

    def device(self, name):
        return Device(self, name)

    def sign_in(self):
        words = ["--backend", self.backend] if self.backend else []
        return words + (["--secret-file", self.secret] if self.secret else [])

    def joined(self, device):
        """Devices beside each other share a directory and its secret; elsewhere each has to be told it."""
        if self.backend and not self.secret:
            secret = os.path.join(self.root, "secret")
            with open(os.open(secret, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
                file.write(device.run("account", "secret"))
            self.secret = secret

    def check(self, devices):
        """`fsck`, and what the daemons themselves report."""
        failures = []
        for device in devices:
            try:
                print(f"soak: fsck of {device.name}: {device.run('fsck').strip()}", flush=True)
                report = device.status()
            except (Refused, subprocess.TimeoutExpired) as error:
                failures.append(str(error))
                continue
            for container in report["containers"]:
                if container["errors"]:
                    failures.append(f"{device.name} reports errors: {container['errors']}")
                if container["conflicts"]:
                    failures.append(f"{device.name} has {container['conflicts']} conflicts")
            print(f"soak: {device.name}: {report['traffic']}", flush=True)
        return failures

    def compare(self, a, b):
        """The trees as both show them, contents too; what `b` holds as placeholders is downloaded."""
        shown = []
        for device in (a, b):
            shown.append(dict(entries(device.documents)))
        one, other = shown
        differences = sorted(
            path for path in one.keys() | other.keys() if one.get(path) != other.get(path))
        print(f"soak: {len(one)} items on {a.name}, {len(other)} on {b.name}, "
              f"{len(differences)} different", flush=True)
        return [f"{path}: {one.get(path)} on {a.name}, {other.get(path)} on {b.name}"
                for path in differences[:20]]

    def close(self, tidy):
        """Unmounts and ends the daemons. A daemon that does not end, or leaves its mount, is told of."""
        failures = []
        for device in self.devices:
            if not device.is_alive():
                device.look_for_daemon()
            if device.is_alive():
                if tidy:
                    try:
                        device.run("unmount", device.mountpoint, timeout=120)
                    except (Refused, subprocess.TimeoutExpired) as error:
                        failures.append(str(error))
                os.kill(device.pid, 15)
            else:
                failures.append(f"the daemon of {device.name} is gone")
            for _ in range(600):
                if not device.is_alive():
                    break
                time.sleep(0.1)
            else:
                failures.append(f"the daemon of {device.name} did not end on SIGTERM")
                os.kill(device.pid, 9)
        with open("/proc/self/mounts") as file:
            left = [line.split()[1] for line in file if line.split()[1].startswith(self.root + "/")]
        for mountpoint in left:
            if tidy:
                failures.append(f"left mounted: {mountpoint}")
            subprocess.run(["umount", "-l", mountpoint], check=False)
        return failures


def entries(top):
    """Path below `top`, and all that devices agree on, of everything in it."""
    for directory, names, files in os.walk(top):
        for name in names + files:
            path = os.path.join(directory, name)
            status = os.lstat(path)
            fields = [stat.filemode(status.st_mode)]
            if stat.S_ISLNK(status.st_mode):
                fields.append(os.readlink(path))
            elif stat.S_ISREG(status.st_mode):
                digest = hashlib.sha256()
                with open(path, "rb") as file:
                    while piece := file.read(1 << 20):
                        digest.update(piece)
                fields += [status.st_size, status.st_mtime_ns, status.st_nlink, digest.hexdigest()]
            yield os.path.relpath(path, top), tuple(fields)
