"""The figures of a run, aims among them, as tables and as JSON."""

import json
import operator
import statistics


def median(values):
    return statistics.median(values) if values else None


def table(head, rows):
    rows = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in [head] + rows) for column in range(len(head))]
    lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |" for row in [head] + rows]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return lines


class Figures:
    def __init__(self):
        self.steps, self.aims, self.notes = [], [], []

    def step(self, part, name, program, watched, **more):
        """Rounds of one step of one program are put together in the table."""
        figure = {"part": part, "step": name, "program": program, **watched.told(), **more}
        self.steps.append(figure)
        kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(watched.kinds.items()))
        print(f"{part}: {name}: {program}: {watched.seconds:.3f} s, {watched.requests} requests ({kinds}), "
              f"{watched.up / 1e6:.3f} MB up, {watched.down / 1e6:.3f} MB down"
              + "".join(f", {key} {value}" for key, value in more.items()), flush=True)

    def aim(self, text, value, sign, limit, unit):
        met = {"<": operator.lt, "<=": operator.le, ">=": operator.ge}[sign](value, limit)
        self.aims.append({"aim": text, "measured": value, "limit": f"{sign} {limit:g} {unit}", "met": met})
        print(f"aim: {text}: {value:.3f} {unit}, {sign} {limit:g}: {'met' if met else 'not met'}", flush=True)

    def note(self, text):
        self.notes.append(text)
        print(text, flush=True)

    def values(self, part, name, program, key):
        return [figure[key] for figure in self.steps
                if (figure["part"], figure["step"], figure["program"]) == (part, name, program)]

    def part(self, part):
        order = []
        for figure in self.steps:
            row = (figure["step"], figure["program"])
            if figure["part"] == part and row not in order:
                order.append(row)
        steps = [name for name, _ in order]
        order.sort(key=lambda row: steps.index(row[0]))
        rows = []
        for name, program in order:
            def of(key, name=name, program=program):
                return self.values(part, name, program, key)

            seconds = f"{median(of('seconds')):.3f}"
            if len(of("seconds")) > 1:
                seconds += f" ({min(of('seconds')):.3f}-{max(of('seconds')):.3f})"
            rows.append([name, program, seconds, f"{median(of('requests')):g}",
                         f"{median(of('bytesUp')) / 1e6:.3f}", f"{median(of('bytesDown')) / 1e6:.3f}",
                         f"{median(of('mostAtOnce')):g}"])
        return table(["step", "program", "s", "requests", "MB up", "MB down", "most at once"], rows) if rows else []

    def text(self, head):
        lines = [head, ""]
        for part in dict.fromkeys(figure["part"] for figure in self.steps):
            lines += [f"### {part}", "", *self.part(part), ""]
        if self.aims:
            lines += ["### Aims", "", *table(["aim", "measured", "limit", "met"], [
                [aim["aim"], f"{aim['measured']:.3f}", aim["limit"], "yes" if aim["met"] else "no"]
                for aim in self.aims]), ""]
        return "\n".join(lines + [*self.notes, ""])

    def save(self, options, head):
        if options.table:
            with open(options.table, "w") as file:
                file.write(self.text(head))
        if options.json:
            with open(options.json, "w") as file:
                json.dump({"head": head, "steps": self.steps, "aims": self.aims, "notes": self.notes}, file, indent=2)
