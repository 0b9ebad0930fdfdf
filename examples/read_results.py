#!/usr/bin/env python3
"""Reads the results of a running roadloop, one JSON object a line.

    read_results.py /run/roadloop/results.sock [COUNT]

Needs nothing but Python 3.8. The format is described in docs/socket.md.
"""
import json
import socket
import struct
import sys
import zlib

HEAD = struct.Struct("<4sHHII")
GAPS = ["dropped", "late", "skipped", "unsynchronised", "camera_lost", "missing", "unreadable",
        "size_changed", "stixel_overflow", "road_held"]
OUTCOMES = ["done", "over_budget", "late", "skipped"]
CLASSES = ["ground", "object", "sky"]
CAMERA_STATES = ["starting", "streaming", "stalled", "lost"]
ORIGINS = ["fixed", "measured", "held", "assumed"]
MOTIONS = ["unknown", "still", "small_motion", "driving"]
FOREGROUNDS = ["warming_up", "valid", "driving", "motion_unknown", "skipped"]
LOGO_STATES = ["tentative", "tracked", "lost"]


class Postcard:
    """A payload, read from front to back."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, n):
        if self.at + n > len(self.data):
            raise ValueError("payload ends too soon")
        self.at += n
        return self.data[self.at - n:self.at]

    def u8(self):
        return self.take(1)[0]

    def bool(self):
        return self.u8() != 0

    def uint(self):
        value = shift = 0
        while True:
            byte = self.u8()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def int(self):
        value = self.uint()
        return (value >> 1) ^ -(value & 1)

    def f32(self):
        return struct.unpack("<f", self.take(4))[0]

    def f64(self):
        return struct.unpack("<d", self.take(8))[0]

    def text(self):
        return self.take(self.uint()).decode()

    def option(self, read):
        return read() if self.u8() else None

    def list(self, read):
        return [read() for _ in range(self.uint())]

    def name(self, names):
        return names[self.uint()]


def identity(p):
    return {"index": p.uint(), "number": p.uint(), "timestamp_ns": p.uint()}


def hello(p):
    return {
        "version": p.text(),
        "camera": p.option(lambda: {key: p.f64() for key in ("focal_px", "cx", "cy", "baseline_m")}),
        "stereo_size": p.option(lambda: [p.uint(), p.uint()]),
        "mono_size": p.option(lambda: [p.uint(), p.uint()]),
        "logo_names": p.list(p.text),
    }


def health(p):
    state = lambda: p.option(lambda: p.name(CAMERA_STATES))
    return {
        "temperature_mdeg": p.option(p.int),
        "cpu_khz": p.option(p.uint),
        "gpu_khz": p.option(p.uint),
        "throttled": p.option(p.bool),
        "throttle_events": p.option(p.uint),
        "over_current_events": p.option(p.uint),
        "cameras": {"left": state(), "right": state(), "mono": state()},
    }


def stixel(p):
    return {"class": p.name(CLASSES), "top": p.uint(), "base": p.uint(), "disparity": p.uint(),
            "confidence": p.u8()}


def road(p):
    keys = ("slope", "offset", "horizon_row", "pitch_rad", "camera_height_m", "confidence")
    return {**{key: p.f32() for key in keys}, "origin": p.name(ORIGINS)}


def logo(p):
    return {"id": p.uint(), "template": p.uint(), "state": p.name(LOGO_STATES),
            "quad": [[p.f32(), p.f32()] for _ in range(4)], "velocity": [p.f32(), p.f32()],
            "confidence": p.u8()}


def frame(p):
    stage = lambda: {"name": p.text(), "start_ns": p.uint(), "duration_ns": p.uint(),
                     "outcome": p.name(OUTCOMES)}
    stixels = lambda: {"stixel_width": p.uint(), "overflowed": p.uint(),
                       "columns": p.list(lambda: p.list(lambda: stixel(p)))}
    motion = lambda: {"state": p.name(MOTIONS), "homography": [p.f32() for _ in range(9)],
                      "tracked": p.uint(), "inliers": p.uint()}
    return {
        "id": identity(p),
        "start_ns": p.uint(),
        "duration_ns": p.uint(),
        "outcome": p.name(OUTCOMES),
        "stages": p.list(stage),
        "gaps": p.list(lambda: p.name(GAPS)),
        "health": health(p),
        "road": p.option(lambda: road(p)),
        "stixels": p.option(stixels),
        "stixels_left_out": p.bool(),
        "motion": p.option(motion),
        "foreground": p.option(lambda: p.name(FOREGROUNDS)),
        "logos": p.option(lambda: p.list(lambda: logo(p))),
    }


def missing(p):
    return {"id": identity(p), "gap": p.name(GAPS)}


KINDS = {1: ("hello", hello), 2: ("frame", frame), 3: ("missing", missing)}


def decode(message):
    magic, version, kind, length, crc = HEAD.unpack_from(message)
    payload = message[HEAD.size:]
    if magic != b"RLFR" or version != 1 or kind not in KINDS:
        raise ValueError(f"no message of version 1: {message[:8]!r}")
    if len(payload) != length or zlib.crc32(payload) != crc:
        raise ValueError("damaged message")
    name, read = KINDS[kind]
    p = Postcard(payload)
    content = read(p)
    if p.at != length:
        raise ValueError(f"{length - p.at} bytes too many")
    return {"kind": name, **content}


def main():
    path = sys.argv[1]
    count = int(sys.argv[2]) if len(sys.argv) > 2 else None
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as reader:
        reader.connect(path)
        while count is None or count > 0:
            message = reader.recv(65536)
            if not message:
                sys.exit("roadloop has ended, or has cut off a reader that is too slow")
            print(json.dumps(decode(message)), flush=True)
            count = None if count is None else count - 1


if __name__ == "__main__":
    main()
