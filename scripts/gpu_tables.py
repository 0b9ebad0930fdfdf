#!/usr/bin/env python3
"""gpu_tables.py FULL.json SLICE.json: the tables of docs/gpu.md, from two runs of gpu_latency."""
import json
import sys

CASES = [("raw", "raw pair"), ("pair", "rectified pair"), ("paths8", "rectified, 8 paths"), ("stored", "stored disparity")]


def rows(path):
    with open(path, encoding="utf-8") as file:
        run = json.load(file)
    found = {}
    for row in run["rows"]:
        found[(row["width"], row["height"], row["case"], row["what"])] = row
    return run["provenance"], found


def main():
    if len(sys.argv) != 3:
        sys.exit("gpu_tables.py: expected two files written by gpu_latency --json")
    (full_from, full), (slice_from, part) = rows(sys.argv[1]), rows(sys.argv[2])
    sizes = sorted({key[:2] for key in full}, key=lambda s: (s[0] * s[1], s))
    for name, at in (("all", full_from), (f"{slice_from['sms_used']}", slice_from)):
        print(f"{name} SMs: {at['device']['name']}, CUDA {at['kernels_toolkit']}, commit {at['commit']}, {at['frames']} frames")
    print(f"\n| size | {' | '.join(label for _, label in CASES)} |\n|---|{'---|' * len(CASES)}")
    for size in sizes:
        cells = []
        for case, _ in CASES:
            cell = []
            for run in (full, part):
                row = run.get((*size, case, "frame"))
                t = row and row["times"]
                cell.append(f"{t['p50_us']:.0f} ({t['p999_us']:.0f})" if t else "-")
            cells.append(" / ".join(cell))
        print(f"| {size[0]}x{size[1]} | {' | '.join(cells)} |")
    stages = ["rectify", "stereo", "road", "stixel"]
    print(f"\n| size, raw pair | {' | '.join(stages)} |\n|---|{'---|' * len(stages)}")
    for size in sizes:
        cells = []
        for stage in stages:
            cell = [run.get((*size, "raw", stage)) for run in (full, part)]
            cells.append(" / ".join(f"{r['times']['p50_us']:.0f}" if r else "-" for r in cell))
        print(f"| {size[0]}x{size[1]} | {' | '.join(cells)} |")
    print(f"\n| size | {' | '.join(label for _, label in CASES)} | page-locked |\n|---|{'---|' * (len(CASES) + 1)}")
    for size in sizes:
        cells, pinned = [], 0
        for case, _ in CASES:
            row = full.get((*size, case, "memory"))
            cells.append(f"{row['device_bytes'] / 2**20:.0f}" if row else "-")
            pinned = max(pinned, row["pinned_bytes"] if row else 0)
        print(f"| {size[0]}x{size[1]} | {' | '.join(cells)} | {pinned / 2**20:.1f} |")


if __name__ == "__main__":
    main()
