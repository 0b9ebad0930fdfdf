#!/usr/bin/env bash
# test-vm.sh [--arch amd64|arm64] [SUITE]…: what needs cameras, a kernel and an init system of
# its own, in virtual machines with the kernel's vivid cameras. Suites:
#   cameras   tests/cameras.rs: capture, negotiation, faults, unplugging
#   live      `roadloop run` on three cameras, and faults of theirs
#   service   the package installed with dpkg, the service under systemd
# Each case is printed with its time. Guests run side by side, as many as there are processors.
# Where QEMU is not to be had, nothing runs and the reason is printed; with ROADLOOP_REQUIRE_VM=1
# that is a failure. VM_KEEP=DIR keeps what the guests wrote.
set -euo pipefail
cd "$(dirname "$0")/.."

arch=$(dpkg --print-architecture 2> /dev/null || echo amd64)
if [ "${1:-}" = --arch ]; then arch=$2; shift 2; fi
suites=("$@")
[ $# -gt 0 ] || suites=(cameras live service)

image() {    # An image that cannot be made for another reason than its packages is a failure.
    local status=0
    scripts/vm/boot.sh --arch "$arch" --image || status=$?
    [ "$status" = 0 ] || [ "$status" = 69 ] || echo "test-vm: the guest's image can't be made" >&2
    return $status
}
status=0
why=$(scripts/vm/setup.sh "$arch" 2>&1 && { scripts/setup.sh v4l2 2>&1 || exit 69; } && image 2>&1) || status=$?
if [ "$status" != 0 ] && [ "$status" != 69 ]; then
    echo "$why" >&2
    exit 1
fi
if [ "$status" != 0 ]; then
    echo "test-vm: SKIPPED, no virtual machine with cameras can be had here: $(tail -n 1 <<< "$why")"
    [ -z "${ROADLOOP_REQUIRE_VM:-}" ] || { echo "test-vm: and ROADLOOP_REQUIRE_VM is set" >&2; exit 1; }
    exit 0
fi

# --- programs -----------------------------------------------------------------------------
native=$(dpkg --print-architecture)
cargo=(cargo) target=target runner=()
if [ "$arch" != "$native" ]; then
    scripts/aarch64.sh setup > /dev/null
    cargo=(scripts/aarch64.sh cargo) target=target/cross/aarch64-unknown-linux-gnu
fi
wants() { [[ " ${suites[*]} " == *" $1 "* ]]; }
if wants cameras; then
    "${cargo[@]}" test --quiet --release --features v4l2 --test cameras --no-run --message-format json > target/test-vm.json
    cameras=$(grep '"name":"cameras"' target/test-vm.json | grep -o '"executable":"[^"]*"' | cut -d '"' -f 4)
    rm target/test-vm.json
fi
if wants live; then
    "${cargo[@]}" build --quiet --release --features v4l2 --bin roadloop --example package_texts --example read_results
fi
if wants service; then
    scripts/deb.sh --cpu "$arch"
    deb=$(find target/debian -name "roadloop_*_$arch.deb" | sort | tail -n 1)
fi

# --- guests -------------------------------------------------------------------------------
out=${VM_KEEP:-$(mktemp -d)}
[ -n "${VM_KEEP:-}" ] || trap 'rm -rf "$out"' EXIT
mkdir -p "$out"

# Lines of libtest as they end, each with its time; the rest as it is.
timed() {
    local line now last=${EPOCHREALTIME/./}
    while IFS= read -r line; do
        now=${EPOCHREALTIME/./}
        case $line in
            'test '*' ... '*)
                printf '%-7s %6d.%d s  %s\n' "$(sed 's/.* \.\.\. //; s/^FAILED/FAILED/' <<< "$line")" \
                    $(((now - last) / 1000000)) $(((now - last) / 100000 % 10)) "$(sed 's/^test \(.*\) \.\.\. .*/\1/; s/_/ /g' <<< "$line")"
                last=$now ;;
            *) echo "$line" ;;
        esac
    done
}

guest() {    # SUITE
    local vm=(scripts/vm/boot.sh --arch "$arch" --devs 3)
    case $1 in
        cameras) "${vm[@]}" --timeout 1200 --env ROADLOOP_REQUIRE_CAMERAS=1 \
            --env ROADLOOP_PROGRAM=/usr/bin/roadloop --file "$target/release/roadloop:/usr/bin/roadloop" \
            "$cameras" --test-threads 1 | timed ;;
        live) "${vm[@]}" --systemd --smp 2 --timeout 2400 --mem 1024 --out "$out/live" \
            --file "$target/release/roadloop:/usr/bin/roadloop" \
            --file "$target/release/examples/read_results:/usr/bin/read_results" \
            --file scripts/vm/cases.sh:/guest/cases.sh --file scripts/vm/live.toml:/guest/live.toml scripts/vm/live.sh ;;
        service) "${vm[@]}" --systemd --timeout 1800 --mem 1024 --out "$out/service" \
            --file "$deb:/guest/roadloop.deb" \
            --file "$target/release/examples/read_results:/usr/bin/read_results" \
            --file scripts/vm/cases.sh:/guest/cases.sh scripts/vm/service.sh ;;
        *) echo "test-vm: no suite $1" >&2; return 2 ;;
    esac
}

run() {    # SUITE: its output to a file, and its end
    local start=$SECONDS status=0
    guest "$1" > "$out/$1.log" 2>&1 || status=$?
    {
        echo "== $1 ($arch guest, $((SECONDS - start)) s with boot)"
        cat "$out/$1.log"
    } > "$out/$1.shown"
    cat "$out/$1.shown"
    [ "$status" != 0 ] || touch "$out/$1.passed"
}

for suite in "${suites[@]}"; do
    while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do wait -n || true; done
    run "$suite" &
done
wait
failed=0
for suite in "${suites[@]}"; do [ -e "$out/$suite.passed" ] || failed=$((failed + 1)); done

ok=$(cat "$out"/*.log | grep -c '^ok ' || true)
bad=$(cat "$out"/*.log | grep -c '^FAILED ' || true)
skipped=$(cat "$out"/*.log | grep -c '^ignored ' || true)
echo "$ok passed, $bad failed, $skipped skipped"
[ "$failed" = 0 ] || { echo "test-vm: $failed of ${#suites[@]} suites failed" >&2; exit 1; }
