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

finish() {
    [ "$failed" = 0 ]
    exit
}
