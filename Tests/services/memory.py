"""Memory for what is measured, before its clock starts."""

import tempfile

BLOCK = bytes(4 << 20)


def prepare(directory, size):
    """Fills `size` bytes of the page cache and frees them again.

    A virtual machine gets its memory from its host at the first use, and the host takes free memory back. To write
    a gibibyte takes 2.3 s where the host has to give it, else 0.3 s. The first program would pay for that, and
    leave the memory to the programs after it. Where less than twice `size` is free it takes half of what is free:
    the machine has the memory that is in use.
    """
    with tempfile.TemporaryFile(dir=directory) as file:
        for _ in range(min(size, free() // 2) // len(BLOCK)):
            file.write(BLOCK)


def free():
    """In bytes."""
    with open("/proc/meminfo") as file:
        for line in file:
            if line.startswith("MemFree:"):
                return int(line.split()[1]) * 1024
    return 0
