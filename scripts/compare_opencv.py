#!/usr/bin/env python3
"""Times the stereo stage and OpenCV's StereoSGBM side by side: same pairs, one thread each, in turn.

Both sides have D = 128, sub-pixel, uniqueness, left-right check and speckle filter.

usage: compare_opencv.py [DATA]     (DATA: folder of recorded drives, default ../shared/data)
Needs cv2 and numpy, and `cargo build --release --example stereo_time` before.
Prints minimum and median of the wall time, the mean of the processor time (which a busy machine
disturbs less), all in milliseconds, and the ratio of processor time to MODE_SGBM_3WAY.
"""
import pathlib
import resource
import subprocess
import sys
import time

import cv2

ROOT = pathlib.Path(__file__).resolve().parent.parent
DATA = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "../shared/data"
OURS = ROOT / "target/release/examples/stereo_time"
REFERENCE = [DATA / "sgm_reference" / side / "1.png" for side in ("left", "right")]
KITTI = [DATA / "kitti2015/training" / side / "000001_10.png" for side in ("image_2", "image_3")]
CASES = [
    (REFERENCE, (400, 0, 640, 480)),
    (REFERENCE, (128, 40, 1024, 440)),
    (KITTI, (8, 2, 1226, 370)),
]
PEERS = {"3WAY": cv2.STEREO_SGBM_MODE_SGBM_3WAY, "HH4": cv2.STEREO_SGBM_MODE_HH4}
RUNS = 20


def opencv(left, right, mode):
    sgbm = cv2.StereoSGBM_create(
        minDisparity=0, numDisparities=128, blockSize=3, P1=8 * 9, P2=32 * 9, disp12MaxDiff=1,
        uniquenessRatio=5, speckleWindowSize=100, speckleRange=2, mode=mode)
    times = []
    for i in range(RUNS + 1):
        start = time.perf_counter()
        sgbm.compute(left, right)
        times.append((time.perf_counter() - start) * 1e3)
        if i == 0:
            cpu = time.thread_time()
    cpu = (time.thread_time() - cpu) * 1e3 / RUNS
    times = sorted(times[1:])
    return times[0], times[len(times) // 2], cpu


def ours(paths, crop, *settings):
    def run(runs):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [OURS, *paths, *map(str, crop), *settings, f"runs={runs}"]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return [float(x) for x in done.stdout.split()], cpu * 1e3

    # What reading the pictures takes goes out in the difference.
    (least, median), long = run(RUNS + 1)
    _, short = run(1)
    return least, median, (long - short) / RUNS


def main():
    cv2.setNumThreads(1)
    print("size       what                min ms  median ms   cpu ms   cpu / 3WAY")
    for paths, (x, y, w, h) in CASES:
        left, right = (cv2.imread(str(p), cv2.IMREAD_GRAYSCALE)[y:y + h, x:x + w].copy() for p in paths)
        rows = {f"OpenCV {name}": opencv(left, right, mode) for name, mode in PEERS.items()}
        rows["ours, 4 paths"] = ours(paths, (x, y, w, h))
        rows["ours, 8 paths"] = ours(paths, (x, y, w, h), "paths=8")
        # The peer once more, so that a change of load on the machine shows.
        rows["OpenCV 3WAY again"] = opencv(left, right, PEERS["3WAY"])
        base = min(rows["OpenCV 3WAY"][2], rows["OpenCV 3WAY again"][2])
        for name, (least, median, cpu) in rows.items():
            size = f"{w}x{h}"
            print(f"{size:<10} {name:<18} {least:7.1f} {median:10.1f} {cpu:8.1f} {cpu / base:12.2f}")


main()
