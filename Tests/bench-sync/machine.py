"""Memory and disk of a virtual machine, which its host has to give before the clock of a step starts."""

import os
import tempfile

BLOCK = os.urandom(4 << 20)


def prepare(directory, size):
    """Fills `size` bytes of the page cache and of the disk of `directory`, and frees them again.

    A host gives memory and blocks of the disk at their first use, and takes free memory back. The first program that
    writes would pay for that, and leave both to the programs after it. Where less than twice `size` of memory is free
    it takes half of what is free: the machine has the memory that is in use. docs/performance.md has measurements.
    """
    with tempfile.TemporaryFile(dir=directory) as file:
        for _ in range(min(size, free() // 2) // len(BLOCK)):
            file.write(BLOCK)
        file.flush()
        os.fsync(file.fileno())


def free():
    """In bytes."""
    with open("/proc/meminfo") as file:
        for line in file:
            if line.startswith("MemFree:"):
                return int(line.split()[1]) * 1024
    return 0
