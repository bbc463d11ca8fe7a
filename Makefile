# Two commands do all the set-up on a fresh machine: `make demo` and `make test`.
# They need rustup, a C compiler, Python 3.10 or later and Node.js 20 or later; the tests also curl and openssl.
.PHONY: help build policies packages dist demo test check lint advisories site simulate chaos fuzz bench lambda toolchain services clean

help:
	@echo "make demo    build what it needs and watch Backstop at work on a queue in memory"
	@echo "make test    run every test, against emulators of SQS that it installs and starts itself"
	@echo "make lambda  build the package and the layer of the Lambda retry handler, for arm64 and x86-64"
	@echo "make check   format, lints, docs, licences and spelling (needs cargo-deny and typos)"
	@echo "make simulate  run thousands of seeds of the simulation, SEEDS=0..20000 unless it says otherwise"
	@echo "make chaos   disturb hosts, workers and operators as processes for MINUTES=10, by SEED=1, with MESSAGES=20000"
	@echo "make fuzz    try inputs of the target TARGET for SECONDS, guided by coverage: see host/docs/contributing/fuzzing.md"
	@echo "make site    make a site of the documents in target/site/book, and check its links"
	@echo "make dist    build what is released for x86-64 and arm64 Linux: archives, wheels with the module for Python, npm packages with the addon for Node.js, deb, rpm and a container image, with checksums and SBOMs"
	@echo "make policies  generate the SDK's bindings and build the built-in policies again, after a change in wit/ or policies/"
	@echo "make packages  package every crate, and compile the packages by themselves"
	@echo "make bench   measure Backstop beside what others use, and write one report with pictures: target/bench/report.md"

# The command alone, with the dependencies of the workspace, so that `make test` builds none of them again.
demo: toolchain
	cargo build --locked --workspace --bin backstop
	@$${CARGO_TARGET_DIR:-target}/debug/backstop demo

# Most tests wait: three for each processor, of any program.
test: build services
	.services/python/bin/cargo-nextest nextest run --locked --workspace --test-threads $$(($$(nproc) * 3))
	cargo test --locked --workspace --doc --no-fail-fast

# All of the workspace: tests run each program of it.
build: toolchain
	cargo build --locked --workspace --bins --lib

check: lint advisories
	cargo fmt --all --check
	cargo deny --locked check bans licenses sources
	typos

# What is known against the versions in the lock file, where its database can be fetched.
advisories:
	@if cargo deny --locked fetch db; then cargo deny --locked check --disable-fetch advisories; \
	else echo "advisories: NOT CHECKED, because their database can't be fetched here"; fi

lint: toolchain
	cargo clippy --locked --workspace --all-targets -- --deny warnings
	RUSTDOCFLAGS="--deny warnings" cargo doc --locked --workspace --no-deps

SEEDS ?= 0..20000
simulate: toolchain
	SIMULATE=$(SEEDS) cargo test --locked --workspace --test simulation no_seed -- --nocapture

SEED ?= 1
MINUTES ?= 10
MESSAGES ?= 20000
chaos: build services
	$${CARGO_TARGET_DIR:-target}/debug/chaos run --seed $(SEED) --seconds $$(($(MINUTES) * 60)) --messages $(MESSAGES) --folder $${CARGO_TARGET_DIR:-target}/chaos

# Coverage is counted in the workspace's crates alone: the dependencies are those of `make build`.
SECONDS ?= 3600
fuzz: toolchain
	@test -n "$(TARGET)" && test -d tests/fuzz/corpus/$(TARGET) || { echo "make fuzz TARGET=…: expected one of" $$(ls tests/fuzz/corpus) >&2; exit 2; }
	RUSTC_WORKSPACE_WRAPPER=$(CURDIR)/tests/fuzz/coverage/rustc cargo build --locked --workspace --features tests-fuzz/libfuzzer --bin coverage
	@mkdir -p target/fuzz/$(TARGET)
	FUZZ_TARGET=$(TARGET) $${CARGO_TARGET_DIR:-target}/debug/coverage -max_total_time=$(SECONDS) -timeout=60 -print_final_stats=1 -artifact_prefix=target/fuzz/$(TARGET)- target/fuzz/$(TARGET) tests/fuzz/corpus/$(TARGET)

site: services
	host/docs/site/build.py
	host/docs/site/check.py

# In the order of the report, which comes last. One alone: `make bench BENCHES=decision`.
BENCHES ?= decision languages throughput scale consumer failure waiting page traces lambda deliver redrive idempotency retrier swaps

# What others embed is a workspace of its own: nobody else compiles it.
PEERS = cargo build --locked --release --manifest-path tests/benches/peers/Cargo.toml --target-dir $${CARGO_TARGET_DIR:-target}/peers

bench: toolchain services
	@for bench in $(BENCHES); do test -e tests/benches/$$bench.rs || test -e tests/benches/$$bench/main.rs || { echo "BENCHES: there is no benchmark \`$$bench\`: see tests/benches" >&2; exit 2; }; done
	cargo build --locked --release --workspace --bins --lib
	$(PEERS) --package peers-plugin --target wasm32-unknown-unknown
	$(PEERS) --package peers
	AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test AWS_REGION=us-east-1 BACKSTOP_CACHE=off cargo bench --locked --workspace $(foreach bench,$(BENCHES),--bench $(bench))
	cargo bench --locked --workspace --bench report

lambda: build
	host/lambda/package.sh

# What is released: see the script.
dist: toolchain
	host/dist/build.sh

# What is committed of what is generated, after a change in wit/ or policies/ or of the toolchain: the bindings of the SDK, then the modules of the built-in policies.
policies: toolchain
	UPDATE_BINDINGS=1 cargo test --locked --workspace --test project bindings_of_the_sdk
	policies/build.sh

# What would be published, and that each package compiles by itself.
packages:
	.ci/packages

toolchain:
	@rustc --print target-libdir --target wasm32-unknown-unknown | xargs test -d || rustup target add wasm32-unknown-unknown

services:
	@tests/services/install.sh
	@tests/chaos/faketime.sh

clean:
	cargo clean
	rm -rf .services
