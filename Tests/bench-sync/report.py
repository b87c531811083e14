"""The figures as tables, and which of the aims are met."""

import statistics

STEPS = ["initial", "names on another device", "all on another device", "one byte changed",
         "ten bytes inserted", "400 MiB renamed", "nothing changed"]
OURS = "ubiquityfs"


def median(values):
    return statistics.median(values) if values else None


def table(head, rows):
    widths = [max(len(row[column]) for row in [head] + rows) for column in range(len(head))]
    lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |"
             for row in [head] + rows]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return lines


def cell(figures, step, program):
    times = figures.seconds.get(step, {}).get(program)
    if not times:
        return ""
    moved = median(figures.bytes.get(step, {}).get(program))
    seconds = f"{median(times):.3f} s"
    if len(times) > 1:
        seconds += f" ({min(times):.3f}-{max(times):.3f})"
    return seconds if moved is None else f"{seconds}, {moved / 1e6:.3f} MB"


def aims(figures):
    """Each as what is asked, what was measured, and whether it is met; nothing where a figure is missing."""
    def seconds(step, program):
        return median(figures.seconds.get(step, {}).get(program))

    def moved(step):
        return median(figures.bytes.get(step, {}).get(OURS))

    def others(step, of=("rsync", "borg, encrypted", "restic", "syncthing")):
        times = [seconds(step, program) for program in of]
        return min((time for time in times if time is not None), default=None)

    result = []

    def aim(text, value, limit, unit):
        if value is not None and limit is not None:
            result.append([text, f"{value:.3f} {unit}", f"<= {limit:.3f} {unit}", "yes" if value <= limit else "no"])

    copy = seconds("initial", "cp -a")
    first = seconds("initial", OURS)
    aim("initial, beside borg and restic", first, others("initial", ("borg, encrypted", "restic")), "s")
    aim("initial, beside cp -a", first and copy and first / copy, 6, "times")
    for step in ["one byte changed", "ten bytes inserted"]:
        aim(f"{step}, beside the fastest", seconds(step, OURS), others(step), "s")
        aim(f"{step}, moved", moved(step) and moved(step) / 1e6, 2, "MB")
    rename = seconds("400 MiB renamed", "syncthing")
    aim("400 MiB renamed, beside syncthing", seconds("400 MiB renamed", OURS), rename and rename * 0.2, "s")
    aim("400 MiB renamed, moved", moved("400 MiB renamed") and moved("400 MiB renamed") / 1024, 64, "KiB")
    aim("nothing changed", seconds("nothing changed", OURS), 0.02, "s")
    whole = seconds("all on another device", OURS)
    aim("all on another device, beside cp -a", whole and copy and whole / copy, 4, "times")
    aim("all on another device, beside restic", whole, seconds("all on another device", "restic"), "s")
    for name in ["daemon that sends, MiB", "daemon that receives, MiB"]:
        aim(name.replace(", MiB", ""), max(figures.others.get(name, []), default=None), 150, "MiB")
    return result


def latencies(figures):
    rows = []
    for name in figures.others.get("idle", [{}])[0]:
        row = [name]
        for when in ["idle", "uploading"]:
            pairs = [pair[name] for pair in figures.others[when] if name in pair]
            row += [f"{median([pair[part] for pair in pairs]) * 1e6:.0f}" for part in (0, 1)]
        rows.append(row)
    return rows


def text(figures, options, amounts):
    programs = sorted({program for step in figures.seconds.values() for program in step},
                      key=lambda name: (name != OURS, name))
    lines = ["", f"{amounts.total() / (1 << 20):.0f} MiB; rounds: {options.rounds}, all programs in each. "
             "Median (fastest-slowest), and what moved.", ""]
    lines += table(["step"] + programs,
                   [[step] + [cell(figures, step, program) for program in programs] for step in STEPS])
    lines += [""] + table(["aim", "measured", "limit", "met"], aims(figures))
    if figures.others.get("idle"):
        lines += ["", "Microseconds: median and 99th percentile, of the rounds' medians.", ""]
        lines += table(["the mount answers", "idle", "99 %", "uploading", "99 %"], latencies(figures))
        seen = figures.others["change seen on the other device"]
        lines += ["", f"A new file of 4 KiB is read on the other device after {median([s[0] for s in seen]) * 1000:.0f} ms "
                  f"(median), {median([s[1] for s in seen]) * 1000:.0f} ms (99 %).",
                  f"Copying the data into the mount: {median(figures.others['copying into the mount, s']):.2f} s."]
    return "\n".join(lines) + "\n"
