#!/usr/bin/env python3
"""Plots the loss curve that `train --curve` writes: in the terminal, and as an SVG file.

  scripts/plot_loss.py CURVE.csv [--svg FILE] [--width N] [--height N]

The CSV has step,loss,world,restart. Where restart or world changes, the job was restarted; the plot marks it.
"""
import argparse
import csv
import sys

DOTS = 0x2800  # braille patterns: 2 × 4 dots in a character
DOT = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]]


def load(path):
    """[(step, loss, world, restart)]; ends with one line when the file is not a curve."""
    try:
        with open(path, newline="") as file:
            rows = list(csv.DictReader(file))
        points = [(int(r["step"]), float(r["loss"]), int(r["world"]), int(r["restart"])) for r in rows]
    except OSError as error:
        sys.exit(f"plot_loss: {path}: {error.strerror}")
    except (KeyError, TypeError, ValueError, csv.Error):
        sys.exit(f"plot_loss: {path} is not a curve: it needs the columns step,loss,world,restart")
    if not points:
        sys.exit(f"plot_loss: {path} has no steps yet")
    return points


def restarts(points):
    """[(first step, what happened)]"""
    found = []
    for before, after in zip(points, points[1:]):
        if before[2:] != after[2:]:
            world = "" if before[2] == after[2] else f", {before[2]} → {after[2]} workers"
            found.append((after[0], f"restart at step {after[0]}{world}"))
    return found


class Scale:
    """Maps [low, high] to [0, size]."""

    def __init__(self, low, high, size):
        self.low, self.span, self.size = low, (high - low) or 1.0, size

    def __call__(self, value):
        return (value - self.low) / self.span * self.size


def bounds(points):
    losses = [point[1] for point in points]
    return points[0][0], points[-1][0], min(losses), max(losses)


def terminal(points, width=80, height=14):
    """Lines of at most `width` characters."""
    first, last, low, high = bounds(points)
    left = 7
    columns = width - left - 1
    x, y = Scale(first, last, columns * 2 - 1), Scale(low, high, height * 4 - 1)
    cells = [[DOTS] * columns for _ in range(height)]
    previous = None
    for step, loss, *_ in points:
        dot_x, dot_y = round(x(step)), height * 4 - 1 - round(y(loss))
        start = dot_y if previous is None or previous[0] != dot_x - 1 else previous[1]
        for row in range(min(start, dot_y), max(start, dot_y) + 1):
            cells[row // 4][dot_x // 2] |= DOT[row % 4][dot_x % 2]
        previous = dot_x, dot_y
    marks = restarts(points)
    columns_marked = {round(x(step)) // 2 for step, _ in marks}
    lines = []
    for row in range(height):
        label = f"{high - (high - low) * row / (height - 1):6.2f}" if row % 4 == 0 or row == height - 1 else " " * 6
        text = "".join("┊" if cell == DOTS and column in columns_marked else " " if cell == DOTS else chr(cell)
                       for column, cell in enumerate(cells[row]))
        lines.append(f"{label} │{text}".rstrip())
    foot = ["─"] * columns
    for column in columns_marked:
        foot[column] = "▲"
    lines.append(" " * left + "└" + "".join(foot))
    lines.append(" " * left + f" {first}".ljust(columns - len(str(last)) - 4) + f"step {last}")
    lines += [f"{' ' * left} ▲ {text}" for _, text in marks]
    return lines


def nice_ticks(low, high, count=5):
    rough = (high - low) / count or 1.0
    size = 10.0 ** len(str(int(rough))) / 10 if rough >= 1 else 10.0 ** -1
    step = next((size * m for m in (1, 2, 5, 10, 20) if size * m >= rough), rough)
    tick = step * -(-low // step)
    while tick <= high:
        yield tick
        tick += step


def svg(points):
    first, last, low, high = bounds(points)
    width, height, left, top, right, bottom = 720, 360, 56, 36, 20, 44
    x, y = Scale(first, last, width - left - right), Scale(low, high, height - top - bottom)

    def at(step, loss):
        return left + x(step), height - bottom - y(loss)

    base = height - bottom
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
             'font-size="12">', f'<rect width="{width}" height="{height}" fill="white"/>',
             f'<text x="{left}" y="20" font-size="14">loss, {points[-1][2]} workers</text>']
    for tick in nice_ticks(low, high):
        at_y = at(first, tick)[1]
        parts.append(f'<path d="M{left} {at_y:.1f}H{width - right}" stroke="#ddd"/>'
                     f'<text x="{left - 8}" y="{at_y + 4:.1f}" text-anchor="end">{tick:g}</text>')
    for tick in nice_ticks(first, last):
        at_x = at(tick, low)[0]
        parts.append(f'<path d="M{at_x:.1f} {base}v5" stroke="#555"/>'
                     f'<text x="{at_x:.1f}" y="{base + 20}" text-anchor="middle">{tick:g}</text>')
    parts.append(f'<text x="{width - right}" y="{height - 8}" text-anchor="end">step</text>')
    for step, text in restarts(points):
        at_x = at(step, low)[0]
        end = at_x > width * 0.7
        parts.append(f'<path class="restart" d="M{at_x:.1f} {top}V{base}" stroke="#c0392b" stroke-dasharray="4 3"/>'
                     f'<text x="{at_x + (-6 if end else 6):.1f}" y="{top + 12}" fill="#c0392b" '
                     f'text-anchor="{"end" if end else "start"}">{text}</text>')
    curve = " ".join(f"{px:.1f},{py:.1f}" for px, py in (at(step, loss) for step, loss, *_ in points))
    parts += [f'<polyline points="{curve}" fill="none" stroke="#1f5fa8" stroke-width="1.5"/>',
              f'<path d="M{left} {top}V{base}H{width - right}" fill="none" stroke="#555"/>', "</svg>"]
    return "\n".join(parts) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("curve")
    parser.add_argument("--svg")
    parser.add_argument("--width", type=int, default=80)
    parser.add_argument("--height", type=int, default=14)
    options = parser.parse_args()
    points = load(options.curve)
    print("\n".join(terminal(points, max(options.width, 30), max(options.height, 4))))
    if options.svg:
        try:
            with open(options.svg, "w") as file:
                file.write(svg(points))
        except OSError as error:
            sys.exit(f"plot_loss: {options.svg}: {error.strerror}")


if __name__ == "__main__":
    main()
