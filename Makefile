# The whole of roam6 by name. Each goal installs what it needs first and says what it does.
CARGO ?= cargo

# What the goal at hand needs installed; each goal narrows it down.
DEPS = build lab browser fuzz vm manual package cross boards

.PHONY: help build demo demo-geonet demo-mptcp demo-shim6 test test-vm throughput-vm test-codecs test-lowend test-deb lint fuzz report manual deb dist clean deps

help: ## this list
	@grep -E '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

deps: ## install the Debian packages that are missing for all goals (asks for root)
	@scripts/install-deps $(DEPS)

build: DEPS = build
build: deps ## build target/release/roam6 and target/release/roam6-lab
	$(CARGO) build --release -p roam6 -p roam6-lab

demo: DEPS = build lab
demo: deps ## a network that moves: home, FN1, FN2, home, then both uplinks; ends with a table
	$(CARGO) build --release -p roam6 -p roam6-lab
	target/release/roam6-lab demo

demo-shim6: DEPS = build lab
demo-shim6: deps ## two hosts, two providers: each provider fails once, and two connections go on
	$(CARGO) build --release -p roam6 -p roam6-lab
	target/release/roam6-lab demo-shim6

demo-geonet: DEPS = build lab
demo-geonet: deps ## three vehicles and a roadside unit: IPv6 by GeoNetworking over one, two and three hops as they drive
	$(CARGO) build --release -p roam6 -p roam6-lab
	target/release/roam6-lab demo-geonet --svg target/demo-geonet.svg

demo-mptcp: DEPS = build lab
demo-mptcp: deps ## one transfer by MPTCP: tunnel, direct path, a move, direct again; plots the path of its bytes
	$(CARGO) build --release -p roam6 -p roam6-lab
	target/release/roam6-lab demo-mptcp --svg target/demo-mptcp.svg

test: DEPS = build lab browser
test: deps lint ## every test there is; ends with one line that counts them
	@scripts/run-tests

test-vm: DEPS = build lab vm
test-vm: deps ## what needs another kernel (ip6tnl, IPsec, WireGuard, netem, radios), on Debian's in a virtual machine; minutes
	@scripts/test-vm

throughput-vm: DEPS = build lab vm
throughput-vm: deps ## what a packet costs in instructions, beside ip6tnl, WireGuard and SRv6 of Debian's kernel; minutes
	@scripts/throughput-vm

test-codecs: DEPS = cross
test-codecs: deps ## the codecs' tests on MIPS of either byte order, emulated; minutes
	@scripts/test-codecs

test-lowend: DEPS = build lab cross boards
test-lowend: deps ## emulated boards, MIPS of 40 MB and arm64, as mobile routers: time, memory, loss, throughput
	@scripts/test-lowend

manual: DEPS = build manual
manual: deps ## manual pages and shell completions into target/manual/
	@scripts/make-manual

deb: DEPS = build package
deb: deps ## Debian package into target/
	$(CARGO) build --release -p roam6
	@scripts/make-deb

test-deb: DEPS = build package vm
test-deb: deb ## the package in a clean Debian, removed again: nothing may be left; and systemd running it, in a virtual machine
	@scripts/test-deb

dist: DEPS = build cross
dist: deps ## static programs for routers (x86_64, aarch64, armv7, mipsel) into target/dist/; fails if one is too large
	@scripts/make-dist

lint: ## formatting, clippy without a warning, and which floors of proto may know which
	$(CARGO) fmt --all --check
	@scripts/check-floors
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	$(CARGO) clippy -p roam6 --no-default-features -- -D warnings

fuzz: DEPS = build fuzz
fuzz: deps ## every fuzz target for MINUTES=10 each
	@scripts/run-fuzz $(or $(MINUTES),10)

report: DEPS = build lab
report: deps ## every experiment (QUICK=1: quickly), and all figures on one page: target/report/index.html
	$(CARGO) build --release -p roam6 -p roam6-lab
	target/release/roam6-lab report $(if $(QUICK),--quick)

clean: ## remove what was built
	$(CARGO) clean
