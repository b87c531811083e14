"""edit.py PACKAGE NUMBER PAUSE: writes the number into the files of a package of 200."""
import os, sys, time
package, number, pause = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
# A tenth of the files keeps what it has: only what changes is to move.
for index in range(200):
    if index % 10 == 9 and number > 0: continue
    name = os.path.join(package, "media" if index % 3 == 0 else ".", f"file{index:03}")
    with open(name, "w") as file:
        file.write(f"edit {number:06} file {index:03} " + "x" * 2000 + "\n")
    if index % 20 == 0: time.sleep(pause)
