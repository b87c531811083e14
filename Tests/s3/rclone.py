"""rclone: its sync, and its mount with the full cache."""

import os
import shutil
import subprocess
import time

# What it is given to do at once; its own default is 4 and 8.
AT_ONCE = ["--transfers", "16", "--checkers", "16"]


class Rclone:
    def __init__(self, ceph, url, place):
        os.makedirs(place, exist_ok=True)
        self.place = place
        # Nothing of what is set for other stores, or for the way to them.
        clean = {name: value for name, value in os.environ.items()
                 if not name.startswith(("AWS_", "RCLONE_")) and not name.lower().endswith("_proxy")}
        self.environment = {
            **clean, "RCLONE_CONFIG": os.path.join(place, "rclone.conf"), "RCLONE_CONFIG_STORE_TYPE": "s3",
            "RCLONE_CONFIG_STORE_PROVIDER": "Ceph", "RCLONE_CONFIG_STORE_ENDPOINT": url,
            "RCLONE_CONFIG_STORE_ACCESS_KEY_ID": ceph.keys[0],
            "RCLONE_CONFIG_STORE_SECRET_ACCESS_KEY": ceph.keys[1], "RCLONE_CONFIG_STORE_REGION": ceph.region,
            "RCLONE_S3_NO_CHECK_BUCKET": "true", "RCLONE_CACHE_DIR": os.path.join(place, "cache")}
        with open(self.environment["RCLONE_CONFIG"], "w"):
            pass

    def __call__(self, *words):
        done = subprocess.run(["rclone", *words], env=self.environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"`rclone {' '.join(words)}` ended with {done.returncode}:\n{done.stdout[-2000:]}")
        return done.stdout


class Mount:
    """`with Mount(rclone, "store:bucket", directory)`, each time with an empty cache."""

    def __init__(self, rclone, remote, directory, more=()):
        self.rclone, self.remote, self.directory, self.more = rclone, remote, directory, more

    def __enter__(self):
        shutil.rmtree(self.rclone.environment["RCLONE_CACHE_DIR"], ignore_errors=True)
        os.makedirs(self.directory, exist_ok=True)
        self.process = subprocess.Popen(
            ["rclone", "mount", self.remote, self.directory, "--vfs-cache-mode", "full", "--vfs-write-back", "0s",
             *AT_ONCE, *self.more], env=self.rclone.environment, stdin=subprocess.DEVNULL)
        end = time.monotonic() + 60
        while not os.path.ismount(self.directory):
            if self.process.poll() is not None or time.monotonic() > end:
                self.__exit__()
                raise RuntimeError("rclone does not mount")
            time.sleep(0.02)
        return self

    def __exit__(self, *_):
        subprocess.run(["fusermount3", "-u", "-q", self.directory], check=False)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            subprocess.run(["fusermount3", "-uz", "-q", self.directory], check=False)
            self.process.kill()
            self.process.wait()
