# make demo   builds, makes a synthetic drive, replays and measures it: demo/index.html
# make test   everything that must hold before a change lands
# make fuzz   readers of files and messages against FUZZ hostile inputs each
# make cuda-setup   compilers for CUDA and a stub of libcuda, where the machine has none
# make cuda-check   the feature "cuda" without a GPU: lints, links, tests (GPU tests skip), kernel report
# make test-vm      cameras, live loop and service in virtual machines (QEMU)
# make test-aarch64 the same for the Jetson's processor, and the suite, under emulation
# make deb    Debian packages for amd64 and arm64, in target/debian
# make gpu-bundle   program, GPU tests and benches in one folder, for a machine with a GPU and nothing else
# make soak   ten minutes of the live loop at 30 Hz, judged: gaps, memory, overhead, page faults (SECONDS=600)
# make street-forest   models/street.forest anew: drives, training, judgement, in minutes
# make mpi-check   the feature "mpi": lints, training on 1, 2 and 3 ranks, a lost rank; skips where there is no MPI
.PHONY: soak vm test-vm test-aarch64 deb setup-v4l2 gpu-bundle demo test setup fmt lint unit release-tests bench compare licences clean cuda-setup cuda-check kernel-report fuzz street-forest mpi-check
CARGO ?= cargo
FUZZ  ?= 100000
DEMO  ?= demo

demo: setup
	$(CARGO) build --release
	./target/release/roadloop demo --out $(DEMO) --force

test: fmt lint unit release-tests cuda-check mpi-check vm
	@echo "make test: all checks passed"

setup:
	@scripts/setup.sh

setup-v4l2:
	@scripts/setup.sh v4l2

fmt: setup
	$(CARGO) fmt --check

# The features are linted alone, so that none leans on another; "cuda" in cuda-check.
lint: setup
	$(CARGO) clippy --all-targets -- -D warnings
	@if scripts/setup.sh v4l2; then $(CARGO) clippy --all-targets --features v4l2 -- -D warnings; \
	else echo "lint: SKIPPED the feature v4l2, there is no libclang here"; fi
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --no-deps --quiet

unit: setup
	$(CARGO) test

# What only the shipped profile can show: no allocations in the loop, byte-equal replays. With the
# cameras where they can be built, as in the package: test-vm then needs no third build.
release-tests: setup
	@features=; if scripts/setup.sh v4l2; then features='--features v4l2'; fi; \
	set -x; $(CARGO) test --release $$features --test allocations --test run_allocations \
	--test aside_allocations --test logo_allocations --test replay

# Skips, and says why, where QEMU can't be installed; ROADLOOP_REQUIRE_VM=1 makes that an error.
test-vm: setup
	scripts/test-vm.sh

# In "make test": emulated machines take a quarter of an hour, so ROADLOOP_TEST_VM=0 leaves them out.
vm: setup
	@if [ "$${ROADLOOP_TEST_VM:-1}" = 0 ]; then echo "test-vm: SKIPPED, ROADLOOP_TEST_VM=0"; \
	else scripts/test-vm.sh; fi

test-aarch64: setup-v4l2
	scripts/test-aarch64.sh

deb: setup-v4l2
	scripts/deb.sh

# The tests that `make unit` runs with a few hundred inputs each.
fuzz: setup
	PROPTEST_CASES=$(FUZZ) $(CARGO) test --release --test hostile_bytes
	PROPTEST_CASES=$(FUZZ) $(CARGO) test --release --lib -- hostile

# An installed toolkit (nvcc on PATH, $CUDA_HOME, /usr/local/cuda) or ROADLOOP_NVCC is used as it is.
cuda-setup: setup
	@if [ -n "$$ROADLOOP_NVCC" ] || command -v nvcc >/dev/null || [ -x "$$CUDA_HOME/bin/nvcc" ] || [ -x /usr/local/cuda/bin/nvcc ]; \
	then echo "cuda-setup: nvcc is installed"; else scripts/cuda-toolchain.sh; fi
	scripts/libcuda-stub.sh

# `cargo test` starts the programs with the stub of libcuda where there is no driver.
cuda-check: cuda-setup kernel-report
	$(CARGO) clippy --all-targets --features cuda -- -D warnings
	$(CARGO) test --features cuda --lib cuda
	$(CARGO) test --features cuda --test 'cuda*'
	$(CARGO) test --features cuda --doc cuda

# Compilers and launcher of MPI are installed where that may be done; else it skips and says so.
# Not optimised: the library is compiled for these few tests alone.
mpi-check: setup
	@if scripts/setup-mpi.sh; then \
	  $(CARGO) clippy --lib --bins --test forest_mpi --features mpi -- -D warnings && \
	  $(CARGO) --config profile.dev.package.roadloop.opt-level=0 test --features mpi --test forest_mpi; \
	else echo "mpi-check: SKIPPED, there is no MPI here"; fi

street-forest: setup
	$(CARGO) build --release
	scripts/street-forest.sh

# Registers, shared memory and spills of each kernel on each target; a spill on Orin fails.
kernel-report: cuda-setup
	scripts/kernel-report.sh

gpu-bundle: cuda-setup
	scripts/gpu-bundle.sh

# Our stereo, foreground and logo features and OpenCV's side by side; needs python3 with venv.
compare: setup
	$(CARGO) build --release --example stereo_time --example foreground_time --example logo_time
	@test -x .venv/bin/python || python3 -m venv .venv
	@.venv/bin/python -c 'import cv2; cv2.xfeatures2d' 2>/dev/null || .venv/bin/pip install -q 'opencv-contrib-python-headless<5' numpy
	.venv/bin/python scripts/compare_opencv.py
	.venv/bin/python scripts/compare_opencv_foreground.py
	.venv/bin/python scripts/compare_opencv_logo.py

bench: setup
	$(CARGO) bench

SECONDS ?= 600
soak: setup
	$(CARGO) build --release --bin roadloop --example soak
	./target/release/examples/soak $(SECONDS)

# Licences, advisories and duplicates of all dependencies, by cargo-deny.
licences: setup
	@command -v cargo-deny >/dev/null || $(CARGO) install --locked cargo-deny
	$(CARGO) deny check licenses bans sources

clean:
	$(CARGO) clean
	rm -rf $(DEMO)
