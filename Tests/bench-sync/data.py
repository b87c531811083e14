"""What is synchronised, and the changes to it: the same bytes in every run."""

import os
import random

WORDS = [
    "".join(random.Random(seed).choices("abcdefghijklmnopqrstuvwxyz", k=2 + seed % 9)) for seed in range(4096)
]
BLOCK = 1 << 16


def block(numbers, is_text):
    """64 KiB, either of words, which compress to about a third, or of bytes that do not compress."""
    if not is_text:
        return numbers.randbytes(BLOCK)
    text = " ".join(numbers.choices(WORDS, k=BLOCK // 6)).encode()
    return text[:BLOCK].ljust(BLOCK, b"\n")


def write(path, size, numbers):
    with open(path, "wb") as file:
        while size > 0:
            # Runs of either kind, as in archives and disk images.
            run = b"".join(block(numbers, is_text) for is_text in [numbers.random() < 0.5] * 4)
            file.write(run[:size])
            size -= len(run)


class Amounts:
    def __init__(self, scale):
        self.big = int((512 << 20) * scale)
        self.medium_files = max(2, int(100 * scale))
        self.medium_size = 4 << 20
        self.small_files = max(20, int(5000 * scale))
        self.small_size = 20_000

    def total(self):
        return self.big + self.medium_files * self.medium_size + self.small_files * self.small_size


def make(directory, amounts):
    """One large file, a directory of medium ones, and small ones by the hundred in directories."""
    numbers = random.Random(1)
    os.makedirs(directory)
    write(os.path.join(directory, "large"), amounts.big, numbers)
    os.mkdir(os.path.join(directory, "medium"))
    for index in range(amounts.medium_files):
        write(os.path.join(directory, "medium", f"file-{index}"), amounts.medium_size, numbers)
    for index in range(amounts.small_files):
        parent = os.path.join(directory, "small", f"directory-{index // 100}")
        os.makedirs(parent, exist_ok=True)
        write(os.path.join(parent, f"file-{index}"), amounts.small_size, numbers)


def change_byte(directory):
    """One byte of the large file, in its middle."""
    with open(os.path.join(directory, "large"), "r+b") as file:
        file.seek(os.path.getsize(file.name) // 2)
        old = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([old[0] ^ 0xFF]))


def insert_bytes(directory):
    """Ten bytes at the start of the large file: all that follows is written anew, as editors do."""
    path = os.path.join(directory, "large")
    with open(path, "rb") as old, open(path + ".new", "wb") as new:
        new.write(b"0123456789")
        while piece := old.read(4 << 20):
            new.write(piece)
    os.rename(path + ".new", path)


def rename_directory(directory):
    os.rename(os.path.join(directory, "medium"), os.path.join(directory, "renamed"))
