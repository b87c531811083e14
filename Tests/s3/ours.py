"""The program itself on an S3 store: devices of an account, started with what their daemons need."""

import os
import signal
import subprocess
import time

from devices import Account


def account(root, binary, ceph, proxy, bucket):
    os.makedirs(root, exist_ok=True)
    return Account(root, binary, ceph.backend(bucket, endpoint=proxy.url), ceph.credentials())


def evict(device, *paths):
    device.run("evict", *paths)
    for path in paths:
        if os.stat(path).st_blocks > 1:
            raise RuntimeError(f"{path} still has blocks after it was evicted")


def end(device):
    device.run("unmount", device.mountpoint)
    os.kill(device.pid, signal.SIGTERM)
    end = time.monotonic() + 60
    while device.is_alive():
        if time.monotonic() > end:
            raise RuntimeError(f"the daemon of {device.name} does not end")
        time.sleep(0.02)


def restart(device):
    """Another process: no connection is open, nothing is remembered but what is on the disk."""
    end(device)
    device.mount()


def fill(device, source, name):
    """Copies a tree into the mount."""
    target = os.path.join(device.documents, name)
    subprocess.run(["cp", "-r", source, target], check=True)
    return target


def synced(device):
    device.run("sync", "--wait", "--timeout", "1800")
