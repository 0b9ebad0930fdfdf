# make demo   builds, makes a synthetic drive, replays it, says where the pictures are
# make test   everything that must hold before a change lands
.PHONY: demo test setup fmt lint unit release-tests bench licences clean
CARGO ?= cargo
DEMO  ?= demo

demo: setup
	$(CARGO) build --release
	./target/release/roadloop demo --out $(DEMO) --force

test: fmt lint unit release-tests
	@echo "make test: all checks passed"

setup:
	@scripts/setup.sh

fmt: setup
	$(CARGO) fmt --check

# The features are linted together and alone, so that none leans on another.
lint: setup
	$(CARGO) clippy --all-targets -- -D warnings
	$(CARGO) clippy --all-targets --features cuda -- -D warnings
	$(CARGO) clippy --all-targets --features v4l2 -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --no-deps --quiet

unit: setup
	$(CARGO) test

# What only the shipped profile can show: no allocations in the loop, byte-equal replays.
release-tests: setup
	$(CARGO) test --release --test allocations --test replay

bench: setup
	$(CARGO) bench

# Licences, advisories and duplicates of all dependencies, by cargo-deny.
licences: setup
	@command -v cargo-deny >/dev/null || $(CARGO) install --locked cargo-deny
	$(CARGO) deny check licenses bans sources

clean:
	$(CARGO) clean
	rm -rf $(DEMO)
