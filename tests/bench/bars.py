#!/usr/bin/env python3
"""Draws figures of a benchmark as horizontal bars, into an SVG file. Usage: bars.py FIGURES.json OUT.svg

FIGURES.json: {"title": …, "unit": …, "rows": [{"label": …, "values": {"cxxrun": 1.5, "gloo": 20.1}}, …]}. The scale is
logarithmic when the largest value is more than 30 times the smallest."""
import json
import math
import sys
from html import escape

WIDTH, LABEL, BAR, GAP = 760, 210, 16, 14
COLOURS = ["#2b6cb0", "#c05621", "#718096", "#2f855a", "#805ad5"]


def number(value):
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def scale(values):
    """A function from a value to a share of the width."""
    low, high = min(values), max(values)
    if low > 0 and high / low > 30:
        floor = 10 ** math.floor(math.log10(low) - 0.3)
        return lambda value: math.log(value / floor) / math.log(high / floor)
    return lambda value: value / high if high else 0


def draw(figures):
    names = list(dict.fromkeys(name for row in figures["rows"] for name in row["values"]))
    share = scale([value for row in figures["rows"] for value in row["values"].values()])
    room = WIDTH - LABEL - 90
    y = 64
    parts = []
    for row in figures["rows"]:
        middle = y + BAR * len(row["values"]) / 2 + 4
        parts.append(f'<text x="{LABEL - 10}" y="{middle:.0f}" text-anchor="end">{escape(row["label"])}</text>')
        for name, value in row["values"].items():
            colour = COLOURS[names.index(name) % len(COLOURS)]
            length = max(1.0, room * share(value))
            parts.append(f'<rect x="{LABEL}" y="{y}" width="{length:.1f}" height="{BAR - 2}" fill="{colour}"/>')
            parts.append(f'<text x="{LABEL + length + 5:.1f}" y="{y + BAR - 5}">{number(value)}</text>')
            y += BAR
        y += GAP
    legend = []
    for i, name in enumerate(names):
        x = LABEL + i * 130
        legend.append(f'<rect x="{x}" y="38" width="12" height="12" fill="{COLOURS[i % len(COLOURS)]}"/>'
                      f'<text x="{x + 18}" y="48">{escape(name)}</text>')
    logarithmic = share(1e-300) < 0 if min(v for r in figures["rows"] for v in r["values"].values()) > 0 else False
    title = f'{figures["title"]} ({figures["unit"]}{", logarithmic" if logarithmic else ""})'
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y}" '
                      'font-family="sans-serif" font-size="12">', f'<rect width="{WIDTH}" height="{y}" fill="white"/>',
                      f'<text x="10" y="22" font-size="15">{escape(title)}</text>', *legend, *parts, "</svg>", ""])


def main():
    with open(sys.argv[1], encoding="utf-8") as figures, open(sys.argv[2], "w", encoding="utf-8") as out:
        out.write(draw(json.load(figures)))


if __name__ == "__main__":
    main()
