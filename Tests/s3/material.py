"""Files to send: random bytes, other ones in each call, so that nothing is found to be there already."""

import os

BLOCK = 1 << 20


def write(path, size):
    with open(path, "wb") as file:
        while size > 0:
            file.write(os.urandom(min(BLOCK, size)))
            size -= BLOCK


def tree(top, count, size, each=100):
    """`count` files of `size` bytes, `each` in a directory. Returns their paths below `top`."""
    names = []
    for index in range(count):
        directory = f"directory-{index // each:03}"
        if index % each == 0:
            os.makedirs(os.path.join(top, directory))
        names.append(f"{directory}/file-{index:05}")
        write(os.path.join(top, names[-1]), size)
    return names


def change_byte(path):
    """One, in the middle, in place."""
    with open(path, "r+b") as file:
        file.seek(os.path.getsize(path) // 2)
        old = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([old[0] ^ 0xFF]))


def read(path, start=0, length=None):
    """As `dd bs=1M` does; returns how many bytes there were."""
    total = 0
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.lseek(descriptor, start, os.SEEK_SET)
        while length is None or total < length:
            data = os.read(descriptor, BLOCK if length is None else min(BLOCK, length - total))
            if not data:
                break
            total += len(data)
    finally:
        os.close(descriptor)
    return total
