#!/usr/bin/env python3
"""Times the foreground stage and OpenCV's MOG2 side by side: same pictures, one thread each, in turn.

usage: compare_opencv_foreground.py [DATA]     (DATA: folder of recorded drives, default ../shared/data)
Needs cv2 and numpy, and `cargo build --release --example foreground_time` before. MOG2 is as it
comes, without shadows for grey; the foreground stage is as it comes, with gain and median. The pictures
are CDnet's highway, enlarged. Prints minimum and median of the wall time after 100 frames, in
milliseconds, and the ratio of the minima. The peer runs before and after, so that a change of load
on the machine shows.
"""
import pathlib
import subprocess
import sys
import time

import cv2

ROOT = pathlib.Path(__file__).resolve().parent.parent
DATA = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "../shared/data"
OURS = ROOT / "target/release/examples/foreground_time"
FOLDER = DATA / "cdnet_highway/input"
WARM = 100
CASES = [("grey", 320, 240, 400), ("grey", 640, 480, 250), ("grey", 1920, 1080, 150), ("colour", 640, 480, 250)]


def opencv(kind, width, height, frames):
    cv2.setNumThreads(1)
    model = cv2.createBackgroundSubtractorMOG2(detectShadows=kind != "grey")
    times = []
    mask = None
    for path in sorted(FOLDER.iterdir())[:frames]:
        image = cv2.resize(cv2.imread(str(path)), (width, height))
        if kind == "grey":
            image = cv2.cvtColor(image, cv2.COLOR_BGR2GRAY)
        start = time.perf_counter()
        mask = model.apply(image, mask)
        times.append((time.perf_counter() - start) * 1e3)
    times = sorted(times[WARM:])
    return times[0], times[len(times) // 2]


def ours(kind, width, height, frames):
    command = [OURS, FOLDER, f"kind={kind}", f"size={width}x{height}", f"frames={frames}", f"warm={WARM}"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return [float(x) for x in done.stdout.split()[:2]]


def main():
    print("kind   size       what               min ms  median ms   min / MOG2")
    for kind, width, height, frames in CASES:
        rows = {
            "OpenCV MOG2": opencv(kind, width, height, frames),
            "ours": ours(kind, width, height, frames),
            "OpenCV MOG2 again": opencv(kind, width, height, frames),
        }
        base = min(rows["OpenCV MOG2"][0], rows["OpenCV MOG2 again"][0])
        for name, (least, median) in rows.items():
            size = f"{width}x{height}"
            print(f"{kind:<6} {size:<10} {name:<18} {least:6.2f} {median:10.2f} {least / base:12.2f}", flush=True)


main()
