#!/bin/sh
# In the guest: `roadloop run` on the three cameras of /guest/live.toml, and faults
# made by the driver. The program is /usr/bin/roadloop.
# shellcheck disable=SC1091,SC2317
. /guest/cases.sh

metrics=/run/roadloop/metrics.prom
log=/tmp/roadloop.log
mkdir -p /run/roadloop

# NAME{LABELS}: its value; several with the same beginning are added up.
metric() { awk -v name="$1" 'index($1, name) == 1 { n += $2 } END { print n + 0 }' $metrics; }
frames() { metric roadloop_frames_total; }
frames_reach() { [ "$(frames)" -ge "$1" ]; }
camera_is() { [ "$(metric "roadloop_camera_state{camera=\"$1\",state=\"$2\"}")" = 1 ]; }
fault() { v4l2-ctl -d "/dev/video$1" --set-ctrl "$2"; }

begin() {    # CONFIG [COMMAND ARGUMENT…]: the program in the background, until its first result
    rm -f $metrics
    config=$1
    shift
    [ $# -gt 0 ] || set -- run
    roadloop "$@" --config "$config" 2> $log &
    pid=$!
    trap 'kill -9 $pid 2> /dev/null' EXIT      # a case that fails leaves no program behind
    await 60 frames_reach 1 || { cat $log; exit 1; }
}
end() {
    kill -TERM "$pid"
    status=0
    wait "$pid" || status=$?
    trap - EXIT
    [ "$status" = 0 ] || { tail -n 20 $log; die "status $status after SIGTERM"; }
}
# How long a frame takes is the host's affair; that they go on coming is the loop's.
frames_go_on_to() {
    local next
    while ! frames_reach "$1"; do
        next=$(($(frames) + 5))
        [ $next -le "$1" ] || next=$1
        await 60 frames_reach $next || return 1
    done
}

three_hundred_frames() {
    begin /guest/live.toml
    read_results /run/roadloop/results.sock > /tmp/results &
    reader=$!
    first=$(frames)
    from=$(up)
    frames_go_on_to $((first + 320)) || { cat $metrics; tail -n 20 $log; exit 1; }
    took=$(since "$from")
    end
    wait $reader
    cp /tmp/results $metrics $log /out/
    # The last report is written as the program ends.
    gaps=$(awk 'index($1, "roadloop_gaps_total") == 1 && $2 > 0 { print $1, $2 }' $metrics | tr '\n' ' ')
    [ "$(metric roadloop_socket_dropped_total)" = 0 ] || die 'the reader was too slow to judge'
    judge_results /tmp/results || exit 1
    [ "$(judge_results /tmp/results | sed -n 's/^results //p')" -ge 300 ] || die 'fewer than 300 results'
    # With road, stixels and foreground of what the cameras see.
    grep -q 'stixels, road Some' /tmp/results || { head -n 5 /tmp/results; die 'no road in any result'; }
    # Emulated processors may have no time left for it in most frames; each says so then.
    foreground=$(metric 'roadloop_stage_seconds_count{stage="foreground"}')
    [ "$foreground" -ge 1 ] || { cat $metrics; die 'no foreground in any result'; }
    [ "$(metric 'roadloop_stage_outcomes_total{stage="foreground"')" -ge 300 ] || { cat $metrics; die 'frames say nothing of the foreground'; }
    major=$(metric 'roadloop_page_faults_per_1000_frames{kind="major"}')
    [ "$major" = 0 ] || die "$major major page faults a 1000 frames"
    rate=$(awk -v t="$took" 'BEGIN { printf "%.1f", 320 / t }')
    echo "note: 320 frames of three cameras in $took s, $rate Hz; foreground in $foreground; gaps: ${gaps:-none}"
    echo "note: page faults a 1000 frames: $(metric 'roadloop_page_faults_per_1000_frames{kind="minor"}') minor, $major major"
    echo "note: mean of stages: $(awk '/roadloop_stage_seconds_sum/ { s = $2; n = $1; sub(/.*stage="/, "", n); sub(/".*/, "", n); t[n] = s } /roadloop_stage_seconds_count/ { n = $1; sub(/.*stage="/, "", n); sub(/".*/, "", n); printf "%s %.1f ms, ", n, 1000 * t[n] / $2 }' $metrics)"
}

unplugged_and_plugged_in() {
    begin /guest/live.toml
    await 20 camera_is left streaming
    lines=$(wc -l < $log)
    # The driver's device is back as soon as the last who has it open has closed it: the state
    # 'lost' is shorter than the metrics' second, but the log has it.
    from=$(up)
    fault 0 disconnect=1
    told() { tail -n +$((lines + 1)) $log | grep -q 'left'; }
    await 20 told
    await 30 camera_is left streaming || { tail -n 20 $log; exit 1; }
    took=$(since "$from")
    after=$(frames)
    await 60 frames_reach $((after + 5)) || { tail -n 20 $log; exit 1; }
    end
    echo "note: streaming again $took s after it went: $(tail -n +$((lines + 1)) $log | grep -m 1 left)"
}

errors_in_the_queue() {
    begin /guest/live.toml
    for name in inject_v4l2_buf_flag_error inject_vidioc_qbuf_error inject_fatal_streaming_error; do
        before=$(frames)
        fault 1 $name=1
        await 30 frames_reach $((before + 10)) || { tail -n 20 $log; die "no frames after $name"; }
        await 30 camera_is right streaming || { tail -n 20 $log; die "not streaming after $name"; }
    done
    end
}

a_silent_camera() {
    begin /guest/live.toml
    fault 2 percentage_of_dropped_buffers=100
    await 20 eval '! camera_is mono streaming' || { tail -n 20 $log; exit 1; }
    before=$(frames)
    await 30 frames_reach $((before + 5)) || { tail -n 20 $log; die 'the loop does not go on without it'; }
    fault 2 percentage_of_dropped_buffers=0
    await 40 camera_is mono streaming || { tail -n 20 $log; exit 1; }
    end
}

a_wrong_device() {
    # One that is missing is tried again as long as there are others; with none there is no start.
    sed 's/vivid\.\([012]\)-video/vivid.9\1-video/' /guest/live.toml > /tmp/wrong.toml
    status=0
    timeout 60 roadloop run --config /tmp/wrong.toml 2> $log || status=$?
    [ "$status" = 69 ] || { tail -n 5 $log; die "status $status, expected 69"; }
    grep 'camera left' $log || { cat $log; exit 1; }
}

# Slow enough that emulated processors leave nothing out, and files short enough that there are several.
slow() {
    sed 's/^rate_hz.*/rate_hz = 1.0/; s/^tolerance_us.*/tolerance_us = 500000/
        s/^deadline_us.*/deadline_us = 10000000/' /guest/live.toml
    printf '[record]\nrotate_s = 6\n'
}
recorded_and_replayed() {
    slow > /tmp/slow.toml
    recording=/tmp/recording
    rm -rf $recording /tmp/replayed
    begin /tmp/slow.toml record --out $recording
    frames_go_on_to 20 || { tail -n 20 $log; exit 1; }
    end
    line=$(grep "$recording: " $log) || { tail -n 20 $log; die 'nothing is told of the recording'; }
    digest=${line##*digest }
    [ "$(metric roadloop_gaps_total)" = 0 ] || echo "note: gaps: $(awk 'index($1, "roadloop_gaps_total") == 1 && $2 > 0 { print $1, $2 }' $metrics | tr '\n' ' ')"
    [ "$(metric roadloop_recording_dropped_total)" = 0 ] || die 'frames are not in the recording'
    # A file that is closed ends as it begins.
    for file in "$recording"/*.mcap; do
        [ "$(tail -c 8 "$file" | od -An -tx1 | tr -d ' \n')" = 894d434150300d0a ] || die "$file is not closed"
    done
    roadloop replay $recording --config /tmp/slow.toml --save none --out /tmp/replayed > /tmp/replay.out 2> /tmp/replay.log ||
        { cat /tmp/replay.log; die 'it is not replayed'; }
    if grep -E 'WARN|not closed|passed by' /tmp/replay.log | grep -v 'dropped: recorded as such'; then die 'the replay complains'; fi
    again=$(sed -n 's/^digest: //p' /tmp/replay.out)
    [ -n "$digest" ] && [ "$again" = "$digest" ] || { cat /tmp/replay.out /tmp/replay.log; die "digest $again, live it was $digest"; }
    [ "$(ls $recording | wc -l)" -ge 3 ] || die "files: $(ls $recording)"
    echo "note: live and replayed: $digest, $(sed -n 's/^frames: //p' /tmp/replay.out) frames of $(ls $recording | wc -l) files"
}
killed_while_recording() {
    slow > /tmp/slow.toml
    recording=/tmp/killed
    rm -rf $recording /tmp/replayed
    begin /tmp/slow.toml record --out $recording
    await 60 frames_reach 6 || { tail -n 20 $log; exit 1; }
    before=$(frames)
    kill -9 "$pid"
    wait "$pid" || true
    trap - EXIT
    roadloop replay $recording --config /tmp/slow.toml --save none --out /tmp/replayed > /tmp/replay.out 2> /tmp/replay.log ||
        { cat /tmp/replay.log; die 'it is not replayed'; }
    grep 'not closed properly' /tmp/replay.log || { cat /tmp/replay.log; die 'nothing is told of the open file'; }
    after=$(sed -n 's/^frames: //p' /tmp/replay.out)
    # At most a second of two frames is lost, and the metrics are up to a second old.
    [ "$after" -ge $((before - 2)) ] || die "$after frames are left of $before"
    echo "note: $after frames are left; $before were out a second before"
}

check 'three cameras through the whole loop, 300 frames and more' three_hundred_frames
check 'a camera unplugged and plugged in again' unplugged_and_plugged_in
check 'errors in the queue: flagged buffers, QBUF, a fatal streaming error' errors_in_the_queue
check 'recorded, ended by SIGTERM, replayed: the same digest' recorded_and_replayed
check 'killed while recording: all but the last second is left' killed_while_recording
check 'a silent camera: the loop goes on without it' a_silent_camera
check 'no camera is there: status 69, the camera named' a_wrong_device
finish
