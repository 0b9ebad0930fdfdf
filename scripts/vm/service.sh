#!/bin/sh
# In the guest, under systemd: the package and the service. /guest/roadloop.deb is the package,
# /usr/bin/read_results prints what comes over the socket.
# shellcheck disable=SC1091,SC2317
. /guest/cases.sh

# By its path: busybox's shell has a dpkg of its own.
dpkg() { /usr/bin/dpkg "$@"; }
config=/etc/roadloop/roadloop.toml
show() { systemctl show roadloop -p "$1" --value; }
state() { [ "$(show ActiveState)" = "$1" ]; }
journal() { journalctl -u roadloop --no-pager -o short-monotonic --since "@${mark:-0}"; }
restarted() { [ "$(show NRestarts)" -ge "$1" ]; }
# Each case begins with the service at rest and its counters at nought.
fresh() {
    systemctl stop roadloop 2> /dev/null || true
    systemctl reset-failed roadloop 2> /dev/null || true
    mark=$(date +%s)
}

# The street instead of cameras: what the service manager sees is the same.
street() {
    cat > $config << END
[source]
kind = "synthetic"
rate_hz = 5.0
[synthetic]
width = 64
height = 48
frames = 4
[stereo]
disparities = 64
END
    cat >> $config
}

installs() {
    dpkg -i /guest/roadloop.deb
    [ -x /usr/bin/roadloop ]
    [ "$(systemctl is-enabled roadloop)" = disabled ] || die 'the service is enabled by its installation'
    state inactive || die 'the service is started by its installation'
    dpkg --verify roadloop
    roadloop --version
    roadloop check config $config > /dev/null
}

unit_is_sound() {
    systemd-analyze verify --man=no /usr/lib/systemd/system/roadloop.service
    # In tenths: 3.0.
    systemd-analyze security --threshold=30 --no-pager roadloop.service > /tmp/security ||
        { cat /tmp/security; exit 1; }
    echo "note: $(sed -n 's/^.*Overall exposure level for //p' /tmp/security)"
}

# The configuration as it is shipped, edited as a user does: cameras and calibration uncommented.
shipped() {
    sed 's/^#\(\[cameras\|\[calibration\|device =\|width =\|height =\|format =\|rate_hz =\|file =\)/\1/'
}
shipped_configuration() {
    fresh
    shipped < $config > /tmp/shipped.toml
    [ "$(grep -c '^\[cameras' /tmp/shipped.toml)" = 4 ] || { cat /tmp/shipped.toml; die 'the example is another one'; }
    roadloop check config /tmp/shipped.toml > /tmp/checked
    grep 'device = "/dev/v4l/by-path/platform-tegra-capture-vi-video-index1"' /tmp/checked
    grep 'file = "/etc/roadloop/stereo.yaml"' /tmp/checked
}

on_cameras() {
    fresh
    cp $config /tmp/as-shipped.toml
    # A camera of a template, at the guest's size.
    shipped < /tmp/as-shipped.toml | sed '
        s/platform-tegra-capture-vi-video-index\([012]\)/platform-vivid.\1-video-index0/
        s/^width.*/width = 320/; s/^height.*/height = 180/
        s/^rate_hz.*/rate_hz = 1.0\ntolerance_us = 500000/
        s/^deadline_us.*/deadline_us = 10000000/' > $config
    sed 's/^\[calibration\]/[camera]/; s/^file = .*/focal_px = 260.0\ncx = 160.0\ncy = 90.0\nbaseline_m = 0.12/' -i $config
    cat >> $config << END
[stereo]
disparities = 64
[foreground]
enabled = true
[record]
enabled = true
folder = "/var/lib/roadloop/recordings"
END
    roadloop check config $config > /dev/null
    from=$(up)
    systemctl start roadloop || { journal; exit 1; }
    echo "note: READY on three cameras after $(since "$from") s: $(show StatusText)"
    read_results /run/roadloop/results.sock > /tmp/results &
    enough() { [ "$(grep -c ' ms, ' /tmp/results)" -ge 10 ]; }
    await 60 enough || { journal; exit 1; }
    systemctl stop roadloop
    [ "$(show Result)" = success ] || { journal; die "result $(show Result)"; }
    wait
    judge_results /tmp/results || exit 1
    journal > /tmp/journal
    # What the unit grants is enough for what [realtime] asks for.
    if grep -E 'refused|not permitted|denied' /tmp/journal; then die 'something is refused'; fi
    recording=$(sed -n 's/.* \(\/var\/lib\/roadloop\/recordings\/[^:]*\): .*/\1/p' /tmp/journal)
    digest=$(sed -n "s|.*$recording: .*, digest ||p" /tmp/journal)
    [ -n "$digest" ] || { cat /tmp/journal; die 'no digest of the recording'; }
    roadloop replay "$recording" --config $config --save none --out /tmp/replayed > /tmp/replay.out 2> /tmp/replay.log ||
        { cat /tmp/replay.log; die 'it is not replayed'; }
    if grep -E 'WARN|not closed|passed by' /tmp/replay.log | grep -v 'dropped: recorded as such'; then die 'the replay complains'; fi
    grep "^digest: $digest" /tmp/replay.out || { cat /tmp/replay.out; die "live it was $digest"; }
    echo "note: live and replayed: $digest, $(sed -n 's/^frames: //p' /tmp/replay.out) frames"
    rm -r "$recording" /tmp/replayed
    cp /tmp/as-shipped.toml $config
}

bad_configuration() {
    fresh
    echo 'no_such_key = 1' > $config
    if systemctl start roadloop; then die 'it started'; fi
    sleep 1
    [ "$(show ExecMainStatus)" = 78 ] || die "status $(show ExecMainStatus), expected 78"
    [ "$(show NRestarts)" = 0 ] || die "it was restarted $(show NRestarts) times"
    state failed || die "it is $(show ActiveState)"
    journal | grep no_such_key
}

ready_after_the_first_result() {
    fresh
    street < /dev/null
    from=$(up)
    systemctl start roadloop
    echo "note: READY after $(since "$from") s: $(show StatusText)"
    state active
    [ "$(show NotifyAccess)" != none ]
    sleep 2
    [ "$(show NRestarts)" = 0 ]
}

no_ready_without_a_result() {
    fresh
    # The first frame hangs: there is never a result.
    printf '[fault.hang]\nstage = "stereo"\nframe = 0\n' | street
    systemctl start --no-block roadloop
    sleep 3
    state activating || die "it is $(show ActiveState), expected activating"
    fresh
}

watchdog_kills_and_restarts() {
    fresh
    printf '[fault.hang]\nstage = "stixel"\nframe = 5\n' | street
    systemctl start roadloop
    first=$(show MainPID)
    await 20 restarted 1
    await 20 state active
    [ "$(show MainPID)" != "$first" ]
    journal > /tmp/journal
    grep -i watchdog /tmp/journal
    # The post-mortem names the stage and the frame.
    grep -i 'stixel' /tmp/journal | grep -w 5 || { cat /tmp/journal; die 'no post-mortem'; }
    fresh
}

killed_it_comes_back() {
    fresh
    street < /dev/null
    systemctl start roadloop
    kill -9 "$(show MainPID)"
    await 20 restarted 1
    await 20 state active
}

sigterm_ends_within_a_frame() {
    fresh
    street < /dev/null
    sed -i 's/^rate_hz.*/rate_hz = 2.0/' $config
    printf '[output]\nsocket = "/run/roadloop/results.sock"\n' >> $config
    systemctl start roadloop
    read_results /run/roadloop/results.sock > /tmp/results &
    enough() { [ "$(grep -c ' ms, ' /tmp/results)" -ge 2 ]; }
    await 20 enough
    pid=$(show MainPID)
    from=$(up)
    kill -TERM "$pid"
    gone() { [ ! -e "/proc/$pid" ]; }
    await 20 gone
    took=$(since "$from")
    wait
    # Results that were ready after the signal.
    late=$(awk -v from="$from" '$1 == "frame" && $10 == "ms," && $7 + $9 / 1000 > from { n++ } END { print n + 0 }' /tmp/results)
    [ "$late" -le 1 ] || { cat /tmp/results; die "$late results after SIGTERM"; }
    await 5 state inactive
    [ "$(show Result)" = success ] || die "result $(show Result)"
    [ "$(show ExecMainStatus)" = 0 ] || die "status $(show ExecMainStatus)"
    [ "$(show NRestarts)" = 0 ] || die 'it was started anew'
    echo "note: ended $took s after the signal, with $late more result; a frame is 0.5 s"
}

stopped_in_order() {
    fresh
    street < /dev/null
    systemctl start roadloop
    from=$(up)
    systemctl stop roadloop
    took=$(since "$from")
    [ "$(show Result)" = success ] || die "result $(show Result)"
    [ "$(show ExecMainStatus)" = 0 ] || die "status $(show ExecMainStatus)"
    echo "note: ended within $took s"
}

upgrade() {
    fresh
    street < /dev/null
    echo '# mine' >> $config
    systemctl start roadloop
    first=$(show MainPID)
    dpkg -i /guest/roadloop.deb
    grep -q '^# mine' $config || die 'the configuration was replaced'
    await 20 state active
    [ "$(show MainPID)" != "$first" ] || die 'the old program still runs'
}

removal_and_purge() {
    systemctl enable roadloop
    dpkg -r roadloop
    [ ! -e /usr/bin/roadloop ]
    grep -q '^# mine' $config || die 'removal took the configuration'
    ! systemctl is-active roadloop || die 'it still runs'
    dpkg -P roadloop
    [ ! -e /etc/roadloop ] || die "$(ls -R /etc/roadloop)"
    left=$(find / -xdev -name '*roadloop*' ! -path '/proc/*' ! -path '/sys/*' ! -path '/guest/*' ! -path '/out/*' \
        ! -path '/var/lib/dpkg/*' ! -path '/tmp/*' ! -path '/var/log/*' ! -path '/run/*')
    [ -z "$left" ] || echo "note: left: $left"
}

check 'the package installs; nothing is enabled or started' installs
check 'the unit is sound, its exposure at most 3.0' unit_is_sound
check 'the shipped configuration, its example of cameras uncommented' shipped_configuration
check 'the shipped configuration on three cameras: results, a recording, replayed' on_cameras
check 'a bad configuration: status 78, no restart' bad_configuration
check 'READY after the first result' ready_after_the_first_result
check 'no READY without a result' no_ready_without_a_result
check 'a hanging stage: the watchdog kills, the post-mortem names it, a restart' watchdog_kills_and_restarts
check 'killed, it comes back' killed_it_comes_back
check 'SIGTERM: the end within a frame' sigterm_ends_within_a_frame
check 'systemctl stop: the end, in order' stopped_in_order
check 'an upgrade keeps the configuration and restarts the service' upgrade
check 'removal keeps the configuration, purge does not' removal_and_purge
finish
