"""Draws the loss curves of a training log as SVG."""

import argparse
import json
from pathlib import Path

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 760, 420, 60, 40, 20, 50
LOW, HIGH = 1.0, 2.6  # bits per byte
COLOURS = {"training (running mean)": "#9aa5b1", "held-out Austen": "#c0392b", "held-out King James Bible": "#1f618d"}


def curves(lines):
    """{name: [(tokens in millions, bits per byte)]}."""
    result = {name: [] for name in COLOURS}
    training, austen, bible = result.values()
    mean = None
    per_step = next(line["tokens"] / line["step"] for line in lines if "tokens" in line)
    for line in lines:
        x = line["step"] * per_step / 1e6
        if "train_bits_per_byte" in line:
            value = line["train_bits_per_byte"]
            mean = value if mean is None else 0.9 * mean + 0.1 * value
            training.append((x, mean))
        if "held_out" in line:
            austen.append((x, line["held_out"]["austen"]))
            bible.append((x, line["held_out"]["kjv"]))
    return result


def _text(x, y, words, anchor="middle", extra=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{extra}>{words}</text>'


def draw(series):
    right = max(x for points in series.values() for x, _ in points)

    def place(x, y):
        inner_w, inner_h = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
        return LEFT + inner_w * x / right, TOP + inner_h * (HIGH - min(y, HIGH)) / (HIGH - LOW)

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        _text(WIDTH / 2, 22, "Bits per byte while training", extra=' font-size="15"'),
        _text(WIDTH / 2, HEIGHT - 12, "million tokens read"),
    ]
    for tenth in range(round(LOW * 10), round(HIGH * 10) + 1, 2):
        x, y = place(0, tenth / 10)
        out.append(f'<line x1="{x}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" stroke="#e5e8eb"/>')
        out.append(_text(LEFT - 8, y + 4, f"{tenth / 10:.1f}", "end"))
    for million in range(0, int(right) + 1):
        x, y = place(million, LOW)
        out.append(_text(x, y + 18, str(million)))
    for at, (name, points) in enumerate(series.items()):
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*p) for p in points))
        out.append(f'<polyline points="{path}" fill="none" stroke="{COLOURS[name]}" stroke-width="2"/>')
        y = TOP + 16 + 18 * at
        left = WIDTH - 230
        out.append(f'<line x1="{left}" y1="{y}" x2="{left + 25}" y2="{y}" stroke="{COLOURS[name]}" stroke-width="3"/>')
        out.append(_text(left + 32, y + 4, name, "start"))
    return "\n".join(out + ["</svg>"]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--log", required=True)
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    lines = [json.loads(line) for line in Path(args.log).read_text().splitlines()]
    Path(args.out).write_text(draw(curves(lines)))


if __name__ == "__main__":
    main()
