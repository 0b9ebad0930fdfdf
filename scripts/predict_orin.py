#!/usr/bin/env python3
"""What an Orin would take for a frame: a prediction with its bounds, from measurements on an H200.

usage: predict_orin.py KERNELS.csv TIMES.json... [--size WxH] [--clock-mhz 1980] [--skip-frames 2]
       predict_orin.py --check

KERNELS.csv: bytes and instructions of every kernel of some frames, by Nsight Compute:
    ncu --graph-profiling node --clock-control none --cache-control none --csv --page raw \\
        --print-units base --log-file KERNELS.csv --metrics METRICS \\
        roadloop bench latency --backend cuda --sms 16 --config C --drive D --rate 0.2 \\
        --warm-up 2 --frames 4
    METRICS: gpu__time_duration.sum,dram__bytes.sum,lts__t_bytes.sum,smsp__inst_executed.sum,
             smsp__thread_inst_executed.sum,launch__grid_size,launch__block_size
TIMES.json: what stages take on a slice of 8 and one of 16 multiprocessors, stages one after the other:
    roadloop bench latency --backend cuda --sms 8  --config C --drive D --rate 20 --json > sms8.json
    roadloop bench latency --backend cuda --sms 16 --config C --drive D --rate 20 --json > sms16.json
    (or files of benches/gpu_latency, with --size: the raw pair)
scripts/orin-input.sh makes all three. On an Orin itself the last command, without --sms, replaces
the prediction by a measurement.
"""
import argparse
import csv
import json
import math
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))

# First words of the names of kernels, and the stage that launches them; in the order of the loop.
STAGES = {
    "rectify": "rectify",  # rectify.cu
    "stereo": "stereo",  # stereo.cu, stereo_filters.cu, stereo_winners.cu
    "road": "road",  # road.cu
    "stixel": "stixel",  # stixel.cu, stixel_ground.cu
    "ego": "egomotion",  # egomotion.cu
    "foreground": "foreground",  # foreground.cu, foreground_frame.cu
    "logo": "logo",  # logo_blur.cu, logo_describe.cu, logo_match.cu, logo_points.cu
    "forest": "forest",  # forest.cu
}
ORDER = list(STAGES.values())
# First words of kernels that no frame launches: training.cu, selftest.cu.
NOT_OF_A_FRAME = {"training", "selftest"}
# Launched once in every frame.
ONCE_A_FRAME = "road_fit"

# Data sheets of NVIDIA's modules: SMs, highest GPU clock (MHz) and memory bandwidth (GB/s) of a mode.
DEVICES = [
    ("Orin Nano 8GB, 15 W", 8, 625, 68.0),
    ("Orin Nano 8GB, Super", 8, 1020, 102.0),
    ("Orin NX 16GB, 25 W", 8, 918, 102.4),
    ("Orin NX 16GB, Super", 8, 1173, 102.4),
    ("AGX Orin 64GB, MAXN", 16, 1300, 204.8),
]

# Each triple: for the lower bound, the prediction, the upper bound.
# Share of the bandwidth that a kernel reaches. The CPU and the cameras use the same memory.
SHARE = (0.90, 0.75, 0.55)
# Cycles of an SM of an Orin (sm_87) for the same instructions, by those of an H200's (sm_90). Both
# issue 4 instructions of a warp a cycle. Below 1: second-level cache and memory are fewer cycles
# away at a lower clock. Above: 48 warps an SM in place of 64 and 164 KiB of shared memory in place
# of 228 hide less latency, at worst as if each wait grew by half as well: 64 / 48 * 1.5 = 2.
CYCLES = (0.9, 1.25, 2.0)
# Instructions of sm_87 by those of sm_90, counted in what nvcc 12.4 makes of the kernels (whole
# kernels, and weighted by loops): minima of pairs and of three are one instruction on an H200.
# Those not named: 0.94 to 1.05, taken as 1.
INSTRUCTIONS = {"stereo": (1.15, 1.3, 1.35), "rectify": (1.15, 1.15, 1.2)}
# What the host does within a stage (logos: the votes and the fit), on a Cortex-A78AE by the
# measuring machine's processor.
HOST = {"logo": (1.5, 2.5, 4.0)}

COLUMNS = {
    "ns": "gpu__time_duration.sum",
    "dram": "dram__bytes.sum",
    "l2": "lts__t_bytes.sum",
    "warp_instructions": "smsp__inst_executed.sum",
    "thread_instructions": "smsp__thread_inst_executed.sum",
}
PREFIX = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
SECONDS = {"n": 1.0, "u": 1e3, "m": 1e6, "": 1e9}


class Wrong(Exception):
    """Something in the input is not as expected."""


def scale(unit, column):
    """Factor to bytes, nanoseconds or instructions."""
    u = unit.strip().lower()
    if match := re.fullmatch(r"([kmgt]?)(byte|inst)s?", u):
        return PREFIX[match[1]]
    if match := re.fullmatch(r"([num]?)s(econd)?", u):
        return SECONDS[match[1]]
    raise Wrong(f"{column}: unit {unit!r}, expected bytes, instructions or seconds")


def stage_of(kernel):
    word = kernel.split("_")[0]
    if word in NOT_OF_A_FRAME:
        raise Wrong(f"kernel {kernel}: no frame launches it, expected those of bench latency")
    if word not in STAGES:
        raise Wrong(f"kernel {kernel}: unknown, expected a name that begins with one of {', '.join(STAGES)}")
    return STAGES[word]


def read_kernels(path, skip):
    """By stage: sums a frame, and launches a frame."""
    with open(path, encoding="utf-8", newline="") as file:
        lines = [line for line in file if not line.startswith("==")]
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        raise Wrong(f'{path}: no line begins with "ID", expected the output of ncu --csv --page raw')
    rows = list(csv.reader(lines[start:]))
    head, units = rows[0], rows[1] if len(rows) > 1 else []
    for column in ["Kernel Name", *COLUMNS.values()]:
        if column not in head:
            raise Wrong(f"{path}: no column {column}, expected --page raw and all the metrics")
    name_at = head.index("Kernel Name")
    at = {key: head.index(column) for key, column in COLUMNS.items()}
    factor = {key: scale(units[i], head[i]) for key, i in at.items()} if len(units) == len(head) else {}
    launches = {}
    for number, row in enumerate(rows[2:], start + 3):
        if len(row) != len(head):
            raise Wrong(f"{path}: row {number}: {len(row)} columns, expected {len(head)}")
        try:
            values = {key: float(row[i].replace(",", "")) * factor[key] for key, i in at.items()}
        except ValueError as e:
            raise Wrong(f"{path}: row {number}: {e}") from None
        launches.setdefault(re.split(r"[(<]", row[name_at])[0].split()[-1], []).append(values)
    frames = len(launches.get(ONCE_A_FRAME, []))
    if frames <= skip:
        raise Wrong(f"{path}: {frames} launches of {ONCE_A_FRAME}, one a frame, expected more than {skip}")
    stages = {}
    for kernel, all_of_it in launches.items():
        stage = stages.setdefault(stage_of(kernel), dict.fromkeys([*COLUMNS, "launches"], 0.0))
        # The first frames are not like those that follow: caches are cold, models empty.
        kept = all_of_it[round(len(all_of_it) * skip / frames) :]
        for key in COLUMNS:
            stage[key] += sum(v[key] for v in kept) / (frames - skip)
        stage["launches"] += len(kept) / (frames - skip)
    return stages, frames - skip


def read_times(path, size):
    """Multiprocessors, and the median of each stage and of the whole, us."""
    with open(path, encoding="utf-8") as file:
        run = json.load(file)
    of = run.get("provenance", {})
    if "stages" in run:
        if of.get("backend") != "cuda" or not of.get("sms"):
            raise Wrong(f"{path}: not measured on a GPU, expected --backend cuda")
        for name, stage in run["stages"].items():
            if stage["count"] == 0 or stage["skipped"] + stage["late"] > stage["count"] // 100:
                raise Wrong(
                    f"{path}: {name}: {stage['count']} runs, {stage['skipped']} skipped, {stage['late']} late; "
                    "expected a longer frame_loop.deadline_us or a lower --rate"
                )
        times = {name: stage["p50_us"] for name, stage in run["stages"].items()}
        return of["sms"], times, run["frame"]["p50_us"]
    if "rows" in run:
        if size is None:
            raise Wrong(f"{path}: of many sizes, expected --size WxH")
        rows = {r["what"]: r["times"]["p50_us"] for r in run["rows"] if "times" in r and r["case"] == "raw" and (r["width"], r["height"]) == size}
        if "frame" not in rows:
            raise Wrong(f"{path}: no raw pair of {size[0]}x{size[1]}")
        return of["sms_used"], {s: t for s, t in rows.items() if s in ORDER}, rows["frame"]
    raise Wrong(f"{path}: neither stages nor rows, expected --json of roadloop bench latency or of gpu_latency")


def predict(stage, work, us, host_us, clock_ratio, bandwidth):
    """Lower bound, prediction and upper bound, us: the larger of bytes over bandwidth and scaled time."""
    # All that asks the second-level cache for it may have to come from memory where that cache has
    # 2 or 4 MiB in place of 50: the truth lies between; the prediction takes the geometric mean.
    low, high = min(work["dram"], work["l2"]), max(work["dram"], work["l2"])
    moved = (low, math.sqrt(low * high), high)
    out = []
    for k in range(3):
        memory = moved[k] / (bandwidth * SHARE[k] * 1e3)
        more = INSTRUCTIONS.get(stage, (1.0, 1.0, 1.0))[k]
        compute = (us - host_us) * clock_ratio * CYCLES[k] * more
        out.append((max(memory, compute) + host_us * HOST.get(stage, (0, 0, 0))[k], memory > compute))
    return out


def ms(us):
    return f"{us / 1000:.2f}" if us < 99_950 else f"{us / 1000:.0f}"


def tables(stages, times, frames, clock_mhz):
    """The Markdown."""
    out = []
    nothing = dict.fromkeys([*COLUMNS, "launches"], 0.0)
    # A stage may be copies alone, which are no kernels.
    stages = {s: stages.get(s, nothing) for s in ORDER if s in stages or any(s in t[0] for t in times.values())}
    names = list(stages)
    missing = [s for s in names for sms in times if s not in times[sms][0]]
    if missing:
        raise Wrong(f"no time of {', '.join(sorted(set(missing)))}, expected one configuration for all files")
    slices = sorted(times)
    out.append(f"Measured on an H200: times the median, the rest a mean of {frames} frames; a slice has the whole memory's bandwidth.\n")
    head = ["stage", "kernels", "bytes from memory, MB", "from the second-level cache, MB", "instructions of warps, M", "of threads, M"]
    head += [f"{n} SMs, ms" for n in slices]
    out.append(f"| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for stage in names:
        w = stages[stage]
        cells = [stage, f"{w['launches']:.0f}", f"{w['dram'] / 1e6:.1f}", f"{w['l2'] / 1e6:.1f}"]
        cells += [f"{w['warp_instructions'] / 1e6:.2f}", f"{w['thread_instructions'] / 1e6:.1f}"]
        cells += [ms(times[n][0][stage]) for n in slices]
        out.append(f"| {' | '.join(cells)} |")
    total = {key: sum(stages[s][key] for s in names) for key in [*COLUMNS, "launches"]}
    cells = ["one after the other", f"{total['launches']:.0f}", f"{total['dram'] / 1e6:.1f}", f"{total['l2'] / 1e6:.1f}"]
    cells += [f"{total['warp_instructions'] / 1e6:.2f}", f"{total['thread_instructions'] / 1e6:.1f}"]
    cells += [ms(sum(times[n][0][s] for s in names)) for n in slices]
    out.append(f"| {' | '.join(cells)} |")
    out.append("\n**A prediction, not a measurement**: ms, in brackets its lower and upper bound; *m*: memory bounds it.\n")
    devices = [d for d in DEVICES if d[1] in times]
    left_out = sorted({d[1] for d in DEVICES} - set(times))
    head = [f"{name}: {sms} SMs, {mhz} MHz, {bandwidth:g} GB/s" for name, sms, mhz, bandwidth in devices]
    out.append(f"| stage | {' | '.join(head)} |\n|---|{'---|' * len(devices)}")
    sums = [[0.0] * 3 for _ in devices]
    host_us = {}
    for stage in names:
        cells = []
        for d, (_, sms, mhz, bandwidth) in enumerate(devices):
            us = times[sms][0][stage]
            # The kernels were counted on 16 SMs: what their time leaves of the stage's is the host's.
            if stage in HOST and 16 in times:
                host_us[stage] = max(0.0, times[16][0][stage] - stages[stage]["ns"] / 1e3)
            host = min(host_us.get(stage, 0.0), us)
            low, mid, high = predict(stage, stages[stage], us, host, clock_mhz / mhz, bandwidth)
            for k, bound in enumerate((low, mid, high)):
                sums[d][k] += bound[0]
            cells.append(f"{ms(mid[0])}{' *m*' if mid[1] else ''} ({ms(low[0])} to {ms(high[0])})")
        out.append(f"| {stage} | {' | '.join(cells)} |")
    cells = [f"**{ms(mid)}** ({ms(low)} to {ms(high)})" for low, mid, high in sums]
    out.append(f"| one after the other | {' | '.join(cells)} |")
    for stage, us in host_us.items():
        out.append(f"\nOf {stage}, {ms(us)} ms of the measured time is the host's work.")
    if left_out:
        out.append(f"\nLeft out: devices of {' and '.join(map(str, left_out))} SMs, there is no measurement on as many.")
    out.append(
        f"\nThe larger of two: bytes over the bandwidth, of which a share of {SHARE[1]} is reached ({SHARE[0]} to "
        f"{SHARE[2]}; from memory on an H200 to all that the second-level cache was asked for, the prediction with "
        f"their geometric mean); and the time on as many SMs by {clock_mhz:g} MHz over the clock and by {CYCLES[1]} "
        f"({CYCLES[0]} to {CYCLES[2]}) cycles for a cycle, stereo {INSTRUCTIONS['stereo'][1]} times as many "
        "instructions. A measurement on the device: `nvpmodel -m MODE; jetson_clocks; roadloop bench latency "
        "--backend cuda --json`."
    )
    return "\n".join(out)


def check():
    """Every kernel has its stage, and made-up measurements give what was worked out by hand."""
    kernels = os.path.join(HERE, "..", "kernels")
    for name in sorted(os.listdir(kernels)):
        if not name.endswith(".cu"):
            continue
        word = name.removesuffix(".cu").split("_")[0]
        word = {"egomotion": "ego"}.get(word, word)
        assert word in STAGES or word in NOT_OF_A_FRAME, f"kernels/{name}: no stage in scripts/predict_orin.py"
        with open(os.path.join(kernels, name), encoding="utf-8") as file:
            found = re.findall(r"__global__ void(?:[\s\\]+__launch_bounds__\([^)]*\))?[\s\\]+(\w+?)(?:##\w+)*\(", file.read())
        assert found, f"kernels/{name}: no kernel"
        for kernel in found:
            # Names in capitals are macros' arguments.
            assert kernel.isupper() or kernel.startswith(word + "_"), f"kernels/{name}: {kernel} does not begin with {word}_"
    data = os.path.join(HERE, "..", "tests", "data", "orin")
    stages, frames = read_kernels(os.path.join(data, "kernels.csv"), 1)
    assert frames == 2 and sorted(stages) == ["logo", "road", "stereo"], (frames, stages)
    # Frames 1 and 2: 100 and 140 MB from memory, 400 and 500 from the second-level cache.
    assert stages["stereo"]["dram"] == 120e6 and stages["stereo"]["l2"] == 480e6, stages
    assert stages["stereo"]["launches"] == 2 and stages["logo"]["ns"] == 500e3, stages
    times = {}
    for n in (8, 16):
        sms, of_stages, frame = read_times(os.path.join(data, f"sms{n}.json"), None)
        assert sms == n
        times[sms] = (of_stages, frame)
    # Memory at 100 GB/s: 120 MB at 90 %, sqrt(120 * 480) = 240 at 75 %, 480 at 55 %; compute at
    # half the clock: 2 ms * 2 * 0.9 * 1.15, * 1.25 * 1.3, * 2 * 1.35.
    got = predict("stereo", stages["stereo"], 2000.0, 0.0, 2.0, 100.0)
    for (us, bound), expected in zip(got, (4140.0, 6500.0, 10_800.0)):
        assert abs(us - expected) < 1e-6 and not bound, (got, expected)
    got = predict("stereo", stages["stereo"], 200.0, 0.0, 2.0, 100.0)
    for (us, bound), expected in zip(got, (120e3 / 90, 3200.0, 480e3 / 55)):
        assert abs(us - expected) < 1e-6 and bound, (got, expected)
    # 1.5 ms, of which the kernels are 0.5: 1 ms on the host, two and a half times as long there.
    got = predict("logo", stages["logo"], 1500.0, 1000.0, 2.0, 100.0)
    assert abs(got[1][0] - (500 * 2 * 1.25 + 2500)) < 1e-6, got
    text = tables(stages, times, frames, 1980.0)
    for part in ("| stereo | 2 | 120.0 | 480.0 |", "A prediction, not a measurement", "Orin Nano 8GB", "AGX Orin", "Of logo, 1.00 ms"):
        assert part in text, f"no {part!r} in\n{text}"
    assert "Left out: devices of 8 SMs" in tables(stages, {16: times[16]}, frames, 1980.0)
    for kernel, says in (("wonder_kernel", "unknown"), ("training_draw_rgbd", "no frame launches it")):
        try:
            stage_of(kernel)
        except Wrong as e:
            assert kernel in str(e) and says in str(e), e
        else:
            raise AssertionError(f"{kernel} has a stage")
    print("predict_orin.py: all checks passed")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, usage=argparse.SUPPRESS)
    parser.add_argument("kernels", nargs="?")
    parser.add_argument("times", nargs="*")
    parser.add_argument("--size", type=lambda t: tuple(map(int, t.split("x"))))
    parser.add_argument("--clock-mhz", type=float, default=1980.0)
    parser.add_argument("--skip-frames", type=int, default=2)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    if args.check:
        check()
        return
    if not args.kernels or not args.times:
        sys.exit("predict_orin.py: expected KERNELS.csv and TIMES.json; --help says how they are made")
    try:
        stages, frames = read_kernels(args.kernels, args.skip_frames)
        times = {}
        for path in args.times:
            sms, of_stages, frame = read_times(path, args.size)
            if sms in times:
                raise Wrong(f"{path}: on {sms} SMs, as another one is")
            times[sms] = (of_stages, frame)
        if args.size:
            # gpu_latency has the stereo chain alone.
            stages = {s: w for s, w in stages.items() if all(s in t[0] for t in times.values())}
        print(tables(stages, times, frames, args.clock_mhz))
    except (Wrong, OSError, json.JSONDecodeError, KeyError) as e:
        print(f"predict_orin.py: {e}", file=sys.stderr)
        sys.exit(65)


if __name__ == "__main__":
    main()
