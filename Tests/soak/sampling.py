"""Samples of what the daemons hold, and whether it grew."""

import os
import statistics
import time

# What the last samples may be above those of the first minutes: memory by a fifth and 16 MiB, since
# allocators give back in their own time; descriptors by 16, since connections come and go.
MEMORY_FACTOR = 1.2
MEMORY_MARGIN = 16 << 20
DESCRIPTOR_MARGIN = 16


class Samples:
    def __init__(self, devices, path, duration):
        self.devices = devices
        self.duration = duration
        self.started = time.monotonic()
        self.taken = []
        self.file = open(path, "w")
        self.file.write("second,phase,device,resident,anonymous,descriptors,threads,catalog\n")

    def elapsed(self):
        return time.monotonic() - self.started

    def take(self, phase):
        for device in self.devices:
            sample = read(device)
            self.taken.append((self.elapsed(), phase, device.name, sample))
            self.file.write(
                f"{self.elapsed():.0f},{phase},{device.name},"
                + ",".join(str(sample[key]) for key in
                           ("resident", "anonymous", "descriptors", "threads", "catalog")) + "\n")
        self.file.flush()

    def of(self, device, key, phases, first=0.0, last=1.0):
        return [sample[key] for second, phase, name, sample in self.taken
                if name == device.name and phase in phases
                and first * self.duration <= second <= last * self.duration + (phase == "calm") * 1e9]

    def growth(self):
        """After the load memory and descriptors are back where they were in the first minutes; and
        under it the last quarter needs no more than the second."""
        failures = []
        for device in self.devices:
            for key, limit, unit in (
                    ("resident", lambda value: value * MEMORY_FACTOR + MEMORY_MARGIN, "bytes"),
                    ("descriptors", lambda value: value + DESCRIPTOR_MARGIN, "")):
                early = self.of(device, key, ("load",), 0.05, 0.25)
                second = self.of(device, key, ("load",), 0.25, 0.5)
                late = self.of(device, key, ("load",), 0.75, 1)
                calm = self.of(device, key, ("calm",))
                if early and calm and statistics.median(calm) > limit(statistics.median(early)):
                    failures.append(
                        f"{device.name}: {key} {statistics.median(calm):.0f} {unit} after the load, "
                        f"{statistics.median(early):.0f} in its first quarter")
                if second and late and statistics.median(late) > limit(statistics.median(second)):
                    failures.append(
                        f"{device.name}: {key} {statistics.median(late):.0f} {unit} in the last "
                        f"quarter of the load, {statistics.median(second):.0f} in the second")
        return failures

    def summary(self):
        lines = ["", "| device | | idle | 1st quarter | 2nd | 3rd | 4th | highest | after |",
                 "|---|---|---|---|---|---|---|---|---|"]
        for device in self.devices:
            for key, scale, unit in (("resident", 1 << 20, "MiB"), ("anonymous", 1 << 20, "MiB"),
                                     ("descriptors", 1, ""), ("threads", 1, ""),
                                     ("catalog", 1 << 20, "MiB")):
                values = [self.of(device, key, ("idle",))]
                values += [self.of(device, key, ("load",), n / 4, (n + 1) / 4) for n in range(4)]
                values.append([max(self.of(device, key, ("idle", "load", "calm")), default=0)])
                values.append(self.of(device, key, ("calm",)))
                cells = [f"{statistics.median(value) / scale:.0f}" if value else "-" for value in values]
                lines.append(f"| {device.name} | {key} {unit} | " + " | ".join(cells) + " |")
        return "\n".join(lines) + "\n"


def read(device):
    fields = {}
    with open(f"/proc/{device.pid}/status") as file:
        for line in file:
            key, _, value = line.partition(":")
            fields[key] = value.split()
    containers = os.path.join(device.environment["UBIQUITYFS_STATE"], "containers")
    catalog = 0
    for directory, _, files in os.walk(containers):
        catalog += sum(size(os.path.join(directory, name)) for name in files
                       if name.startswith("catalog.sqlite"))
    return {
        "resident": int(fields["VmRSS"][0]) * 1024,
        "anonymous": int(fields["RssAnon"][0]) * 1024,
        "descriptors": len(os.listdir(f"/proc/{device.pid}/fd")),
        "threads": int(fields["Threads"][0]),
        "catalog": catalog,
    }


def size(path):
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0
