"""Workers in processes of their own, and the supervisor that notices failures and hangs."""

import multiprocessing
import os
import queue
import random
import signal
import time
import traceback

# Longer than any single step of a worker takes, on a slow machine too.
HANGS_AFTER = 600


class Job:
    """What a worker sees of its supervisor."""

    def __init__(self, name, seed, stop, beat, rounds):
        self.name = name
        self.random = random.Random(f"{seed} {name}")
        self._stop = stop
        self._beat = beat
        self._rounds = rounds

    def goes_on(self):
        """Ask before each round: false when it is time to end."""
        self._beat.value = time.monotonic()
        if self._stop.is_set():
            return False
        self._rounds.value += 1
        return True

    def pause(self, seconds):
        """Between rounds: the load is to be mixed, not as much as will go."""
        self._stop.wait(seconds * self.random.uniform(0.5, 1.5))

    def must(self, condition, message):
        if not condition:
            raise AssertionError(message)


class Crew:
    def __init__(self, seed):
        self.seed = seed
        self.context = multiprocessing.get_context("fork")
        self.stop = self.context.Event()
        self.reports = self.context.Queue()
        self.members = {}
        self.found = []

    def start(self, name, work):
        beat = self.context.Value("d", time.monotonic())
        rounds = self.context.Value("q", 0)
        job = Job(name, self.seed, self.stop, beat, rounds)
        process = self.context.Process(target=self._run, args=(job, work), name=name)
        process.start()
        self.members[name] = (process, beat, rounds)

    def _run(self, job, work):
        os.setpgid(0, 0)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        try:
            work(job)
        except BaseException:  # noqa: BLE001
            self.reports.put(f"worker {job.name}, round {job._rounds.value}:\n" + traceback.format_exc())

    def failures(self):
        try:
            while True:
                self.found.append(self.reports.get_nowait())
        except queue.Empty:
            pass
        for name, (process, beat, _) in self.members.items():
            if process.is_alive() and time.monotonic() - beat.value > HANGS_AFTER:
                self.found.append(f"worker {name} hangs: {where(process.pid)}")
                beat.value = float("inf")
            elif process.exitcode not in (None, 0):
                self.found.append(f"worker {name} died with {process.exitcode}")
        return list(self.found)

    def finish(self):
        """Has the workers end after their round, and waits for them."""
        self.stop.set()
        end = time.monotonic() + HANGS_AFTER
        for name, (process, _, _) in self.members.items():
            process.join(max(1, end - time.monotonic()))
            if process.is_alive():
                self.found.append(f"worker {name} does not end: {where(process.pid)}")
        time.sleep(0.2)

    def summary(self):
        counts = ", ".join(f"{name} {rounds.value}" for name, (_, _, rounds) in self.members.items())
        return f"soak: rounds: {counts}"

    def kill(self):
        for process, _, _ in self.members.values():
            if process.is_alive():
                try:
                    os.killpg(process.pid, signal.SIGKILL)
                except ProcessLookupError:
                    process.kill()


def where(pid):
    """What a process and its children wait for in the kernel."""
    found = []
    for directory in os.listdir("/proc"):
        if not directory.isdigit():
            continue
        try:
            with open(f"/proc/{directory}/stat") as file:
                fields = file.read().rsplit(")", 1)[1].split()
            if pid not in (int(directory), int(fields[2])):
                continue
            with open(f"/proc/{directory}/wchan") as file:
                found.append(f"{directory} {fields[0]} {file.read()}")
        except OSError:
            continue
    return "; ".join(found)
