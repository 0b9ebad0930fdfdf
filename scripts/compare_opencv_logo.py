#!/usr/bin/env python3
"""Features and matches of the logo stage beside OpenCV's: same pictures, one thread each, in turn.

Times the detector of SIFT, BRIEF (where opencv-contrib is there), the brute-force Hamming 2-NN, and
ours; then tells how many of SIFT's keypoints ours has within 1.5 px, and the other way round.

usage: compare_opencv_logo.py [DATA]     (DATA: folder of recorded drives, default ../shared/data)
Needs cv2 and numpy, and `cargo build --release --example logo_time` before.
Times are minimum and median of the wall time and the mean of the processor time, milliseconds; the
last column is processor time over that of SIFT's detector (of its 2-NN for matches).
"""
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

import cv2
import numpy

ROOT = pathlib.Path(__file__).resolve().parent.parent
DATA = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "../shared/data"
OURS = ROOT / "target/release/examples/logo_time"
PICTURES = [
    ("KITTI", DATA / "kitti2015/training/image_2/000001_10.png", (1242, 375)),
    ("KITTI", DATA / "kitti2015/training/image_2/000003_10.png", (1280, 720)),
    ("lorry", DATA / "logo_kravag_truck/frames/0000000063.png", (1242, 375)),
]
# OpenCV's parameters; ours by default are sigma0 1 without enlarging.
LIKE_OPENCV = ["upsample=true", "sigma0=1.6", "contrast=0.04", "max_orientations=4"]
RUNS = 7


def timed(work):
    work()
    times, cpu = [], time.thread_time()
    for _ in range(RUNS):
        start = time.perf_counter()
        work()
        times.append((time.perf_counter() - start) * 1e3)
    cpu = (time.thread_time() - cpu) * 1e3 / RUNS
    times.sort()
    return times[0], times[len(times) // 2], cpu


def ours(path, *settings):
    def run(runs):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [OURS, path, *settings, f"runs={runs}"]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return [float(x) for x in done.stdout.split()], cpu * 1e3

    # What reading the picture takes goes out in the difference; a run matches besides.
    (least, median, found, count, matching), long = run(RUNS + 1)
    _, short = run(1)
    return least, median, (long - short) / RUNS - matching, int(found), int(count), matching


def keypoints(path, *settings):
    with tempfile.NamedTemporaryFile(suffix=".csv") as out:
        subprocess.run([OURS, path, "runs=1", f"out={out.name}", "max_keypoints=60000", *settings],
                       check=True, capture_output=True)
        lines = pathlib.Path(out.name).read_text().splitlines()
    return numpy.unique([[float(v) for v in line.split(",")[:3]] for line in lines], axis=0)


def share(these, those, ratio=1.25):
    """Share of these that have one of those within 1.5 px and a quarter of their scale."""
    found = 0
    for x, y, sigma in these:
        near = those[(numpy.abs(those[:, 0] - x) < 1.5) & (numpy.abs(those[:, 1] - y) < 1.5)]
        near = near[numpy.hypot(near[:, 0] - x, near[:, 1] - y) < 1.5]
        scale = near[:, 2] / sigma
        found += bool(((scale < ratio) & (scale > 1 / ratio)).any())
    return found / len(these)


def main():
    cv2.setNumThreads(1)
    folder = tempfile.TemporaryDirectory()
    print("picture         size       what                           min ms  median ms   cpu ms    ratio  found  kept")
    for name, source, (width, height) in PICTURES:
        grey = cv2.imread(str(source), cv2.IMREAD_GRAYSCALE)
        if grey.shape != (height, width):
            grey = cv2.resize(grey, (width, height), interpolation=cv2.INTER_AREA)
        path = pathlib.Path(folder.name) / "picture.png"
        cv2.imwrite(str(path), grey)
        size = f"{width}x{height}"

        sift = cv2.SIFT_create(1000)
        found = sift.detect(grey, None)
        rows = {"OpenCV SIFT detect": (*timed(lambda: sift.detect(grey, None)), None, len(found))}
        if hasattr(cv2, "xfeatures2d"):
            brief = cv2.xfeatures2d.BriefDescriptorExtractor_create(32)
            rows["OpenCV BRIEF"] = (*timed(lambda: brief.compute(grey, found)), None, len(found))
        default = ours(path)
        rows["ours"] = default[:5]
        rows["ours, OpenCV's parameters"] = ours(path, *LIKE_OPENCV)[:5]
        # Once more, so that a change of load on the machine shows.
        rows["OpenCV SIFT detect again"] = (*timed(lambda: sift.detect(grey, None)), None, len(found))
        base = min(rows["OpenCV SIFT detect"][2], rows["OpenCV SIFT detect again"][2])
        for what, (least, median, cpu, points, kept) in rows.items():
            points = "" if points is None else points
            print(f"{name:<15} {size:<10} {what:<28} {least:8.1f} {median:10.1f} {cpu:8.1f} {cpu / base:8.2f} {points:>6} {kept:>5}")

        codes = numpy.random.default_rng(1).integers(0, 256, (2, default[4], 32), dtype=numpy.uint8)
        matcher = cv2.BFMatcher(cv2.NORM_HAMMING)
        least, median, _ = timed(lambda: matcher.knnMatch(codes[0], codes[1], 2))
        count = f"{default[4]}^2"
        print(f"{name:<15} {count:<10} {'OpenCV 2-NN':<28} {least:8.2f} {median:10.2f}")
        print(f"{name:<15} {count:<10} {'ours 2-NN':<28} {default[5]:8.2f} {'':>19} {default[5] / least:8.2f}")

        # Its keypoints of octaves on the same grid as ours: without its shift of 0.25 px.
        peer = cv2.SIFT_create(enable_precise_upscale=True).detect(grey, None)
        peer = numpy.unique([[k.pt[0], k.pt[1], k.size / 2] for k in peer], axis=0)
        same = keypoints(path, *LIKE_OPENCV)
        print(f"{name:<15} {size:<10} of OpenCV's {len(peer)} points ours has {share(peer, same):.3f}; "
              f"of ours {len(same)} OpenCV has {share(same, peer):.3f}")
        # Without enlarging: of those at scales that we look for.
        plain = keypoints(path)
        least = plain[:, 2].min()
        large = peer[peer[:, 2] > least]
        print(f"{name:<15} {size:<10} by default: of OpenCV's {len(large)} above {least:.1f} px ours has "
              f"{share(large, plain):.3f}")


main()
