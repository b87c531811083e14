"""Plain tools that read one object with several connections: what the store and the machine can do."""

import os
import shutil
import subprocess


def curl(url, keys, region, bucket, key, size, connections):
    """Ranges of equal length, each over a connection of its own, thrown away."""
    each = -(-size // connections)
    words = ["curl", "--noproxy", "*", "--silent", "--show-error", "--fail", "--no-progress-meter", "--parallel", "--parallel-immediate",
             "--parallel-max", str(connections)]
    for index in range(connections):
        words += (["--next", "--noproxy", "*", "--silent", "--show-error", "--fail"] if index else []) + [
            "--user", ":".join(keys), "--aws-sigv4", f"aws:amz:{region}:s3",
            "--header", "x-amz-content-sha256: UNSIGNED-PAYLOAD",
            "--range", f"{index * each}-{min(size, (index + 1) * each) - 1}", "--output", os.devnull,
            f"{url}/{bucket}/{key}"]
    subprocess.run(words, check=True, stdin=subprocess.DEVNULL)


def rclone(program, remote, target, connections):
    """Into a file, as the mount keeps what it reads."""
    shutil.rmtree(target, ignore_errors=True)
    program("copy", remote, target, "--multi-thread-streams", str(connections), "--multi-thread-cutoff", "1M",
            "--ignore-checksum")
