#!/usr/bin/env python3
"""Reads a recording with the Python packages mcap and mcap-ros2-support, as a user would.

usage: check_recording.py FILE.mcap...

Decodes every message by the schema in the file and checks pictures, cameras and results against
each other. Exit status 0: all is well; 1: it is not; 77: the packages are not there.
"""
import sys

try:
    from mcap.reader import make_reader
    from mcap_ros2.decoder import DecoderFactory
except ImportError as missing:
    print(f"SKIPPED: {missing}; pip install mcap mcap-ros2-support")
    sys.exit(77)

SCHEMAS = {
    "/stereo/left/image_raw": "sensor_msgs/msg/Image",
    "/stereo/right/image_raw": "sensor_msgs/msg/Image",
    "/stereo/left/camera_info": "sensor_msgs/msg/CameraInfo",
    "/stereo/right/camera_info": "sensor_msgs/msg/CameraInfo",
    "/roadloop/frame": "roadloop_msgs/msg/Frame",
    "/roadloop/state": "roadloop_msgs/msg/State",
}
BYTES = {"mono8": 1, "mono16": 2, "16UC1": 2, "rgb8": 3}


def check(path):
    counts, stixels, last = {}, 0, None
    with open(path, "rb") as file:
        reader = make_reader(file, validate_crcs=True, decoder_factories=[DecoderFactory()])
        about = {m.name: m.metadata for m in reader.iter_metadata()}
        assert about["roadloop"]["format"] == "2", about
        for schema, channel, message, ros in reader.iter_decoded_messages():
            topic = channel.topic
            counts[topic] = counts.get(topic, 0) + 1
            assert channel.message_encoding == "cdr" and schema.encoding == "ros2msg", topic
            assert SCHEMAS.get(topic, schema.name) == schema.name, (topic, schema.name)
            if schema.name == "sensor_msgs/msg/Image":
                assert ros.step == ros.width * BYTES[ros.encoding], topic
                assert len(ros.data) == ros.step * ros.height, topic
            if topic == "/stereo/left/camera_info":
                assert ros.p[3] == 0 and ros.k[0] > 0
            if topic == "/stereo/right/camera_info":
                assert ros.p[3] < 0 and len(ros.r) == 9
            if topic == "/roadloop/frame":
                assert ros.timestamp_ns == message.log_time and ros.index == message.sequence
                stamp = ros.header.stamp
                assert stamp.sec * 10**9 + stamp.nanosec == ros.timestamp_ns
                assert last is None or ros.index > last
                last = ros.index
                if ros.has_street:
                    columns = {s.column for s in ros.stixels}
                    assert columns == set(range(ros.columns)), "a column without stixels"
                    assert all(s.top <= s.base and s.class_id <= 2 for s in ros.stixels)
                    stixels += len(ros.stixels)
                assert ros.outcome in ("done", "over_budget", "late") and ros.duration_ns > 0
                assert len(ros.motion.homography) == 9
        summary = reader.get_summary()
        assert summary is not None and summary.statistics.message_count == sum(counts.values())
    print(f"{path}: {sum(counts.values())} messages, {stixels} stixels")
    for topic, n in sorted(counts.items()):
        print(f"  {n:6} {topic}")


def main():
    if len(sys.argv) < 2:
        print(__doc__.strip(), file=sys.stderr)
        return 64
    try:
        for path in sys.argv[1:]:
            check(path)
    except AssertionError as wrong:
        print(f"{path}: {wrong!r}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
