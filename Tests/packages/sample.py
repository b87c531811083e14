"""sample.py PACKAGE STOP: reads a package of 200 files again and again until STOP is there, and fails
if it ever was of two edits."""
import os, sys, time
# The version of a file is asked of the daemon, never of the kernel's memory. Were all of them the
# same before and after the files were read, then nothing was switched in between.
package, stop = sys.argv[1], sys.argv[2]
names = [os.path.join(package, "media" if i % 3 == 0 else ".", f"file{i:03}")
         for i in range(200) if i % 10 != 9]
def versions():
    return [os.getxattr(name, "user.ubiquity.version") for name in names]
seen, good, discarded, mixed = set(), 0, 0, 0
def sample():
    global good, discarded, mixed
    try:
        before = versions()
        read = [open(name).read(20)[5:11] for name in names]
        edits = set(read)
        after = versions()
    except FileNotFoundError:
        # Not there yet, or the mount is being taken down: but never a part of it.
        present = [os.path.exists(name) for name in names]
        if any(present) and not all(present) and [os.path.exists(n) for n in names] == present:
            mixed += 1
            print("a part of the files is there", flush=True)
        return
    except OSError:
        discarded += 1
        return
    if before != after:
        discarded += 1
    elif len(edits) != 1:
        mixed += 1
        rare = min(edits, key=read.count)
        print("mixed:", sorted(edits), read.count(rare), "of", rare, time.monotonic(),
              [n[-3:] for n, e in zip(names, read) if e == rare][:8], flush=True)
    else:
        good += 1
        seen.update(edits)
while not os.path.exists(stop):
    sample()
    time.sleep(0.01)
sample()
print(f"{good} samples, {discarded} discarded, {mixed} mixed; edits seen: {len(seen)}", flush=True)
sys.exit(1 if mixed or good < 5 else 0)
