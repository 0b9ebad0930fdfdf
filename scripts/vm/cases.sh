# For scripts that run in the guest (busybox's sh): cases with a name, a result and a time.
#   . cases.sh; check 'what must hold' FUNCTION; …; finish
# A case is a function that runs in a shell of its own with set -e; its output is shown if it
# fails. TODO_STOP=1: the first failure ends the run.
# shellcheck shell=sh disable=SC3043
passed=0 failed=0

up() { cut -d' ' -f1 /proc/uptime; }
die() { echo "$*"; exit 1; }
since() { awk -v from="$1" '{ printf "%.1f", $1 - from }' /proc/uptime; }

check() {    # NAME FUNCTION
    local start
    start=$(up)
    (set -e; "$2") > /tmp/case.log 2>&1
    if [ $? = 0 ]; then
        passed=$((passed + 1))
        printf 'ok      %6s s  %s\n' "$(since "$start")" "$1"
        sed -n 's/^note: /                  /p' /tmp/case.log
    else
        failed=$((failed + 1))
        printf 'FAILED  %6s s  %s\n' "$(since "$start")" "$1"
        sed 's/^/    | /' /tmp/case.log
    fi
}

await() {    # SECONDS COMMAND…: until the command succeeds
    local n limit=$1
    shift
    n=$((limit * 5))
    until "$@" > /dev/null 2>&1; do
        n=$((n - 1))
        [ "$n" -gt 0 ] || { echo "not within $limit s: $*"; return 1; }
        sleep 0.2
    done
}

# What `read_results` has printed: each index once and in order, be it a result or a gap with a
# name, stamps that go up (a gap may have its predecessor's), the cameras' own numbers, too. A silence
# that is told under the last frame's name (docs/socket.md) is no frame of its own.
# Prints how many results there are; with `note: `, the time between stamps.
judge_results() {    # FILE
    awk '
        function bad(what) { print FILENAME ": line " NR ": " what ": " $0; failed = 1; exit 1 }
        $1 != "frame" { next }
        {
            index_ = $2; number = $5 + 0; stamp = $7 + 0; result = $9 ~ /^[0-9.]+$/ && $10 == "ms,"
            if (!result && $9 !~ /^(dropped|unsynchronised|camera_lost|missing)$/) bad("neither a result nor a gap with a name")
            if (seen && $9 == "camera_lost" && index_ == last_index && number == last_number && stamp == last_stamp) { silences++; next }
            if (seen && index_ != last_index + 1) bad("index " index_ " after " last_index)
            if (seen && (stamp < last_stamp || (result && stamp == last_stamp))) bad("stamp " stamp " after " last_stamp)
            if (seen && stamp > last_stamp) {
                if (number <= last_number) bad("number " number " after " last_number)
                steps++; sum += stamp - last_stamp; numbers += number - last_number
            }
            if (result) { results++; ms = $9 + 0; if (ms > worst) worst = ms }
            seen = 1; last_index = index_; last_stamp = stamp; last_number = number
        }
        END {
            if (failed) exit 1
            if (steps) printf "note: %d results, %d gaps in order, %d silences; %.1f ms from number to number; latency at most %.0f ms\n",
                results, last_index - first_index + 1 - results, silences, 1000 * sum / numbers, worst
            print "results " results + 0
        }' first_index="$(awk '$1 == "frame" { print $2; exit }' "$1")" "$1"
}

finish() {
    [ "$failed" = 0 ]
    exit
}
