# All goals of roam6. Each goal first installs the packages it needs.
CARGO ?= cargo

# What home agents have and routers do without; scripts/make-dist builds for routers.
FLEET = --features roam6/fleet,roam6-lab/fleet

# Package groups of scripts/install-deps; each goal narrows them down.
DEPS = build fleet lab browser fuzz vm manual package cross boards

.PHONY: help build demo demo-bonding demo-fleet demo-geonet demo-mptcp demo-shim6 test test-vm throughput-vm test-codecs test-lowend \
  measure-boards test-deb release verify-release lint fuzz report manual deb dist clean deps

help: ## this list of goals
	@grep -E '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

deps: ## install the missing Debian packages of all goals (needs root)
	@scripts/install-deps $(DEPS)

build: DEPS = build
build: deps ## build target/release/roam6 and target/release/roam6-lab
	$(CARGO) build --release -p roam6 -p roam6-lab $(FLEET)

demo: DEPS = build lab
demo: deps ## a mobile network moves: home, FN1, FN2, home, then both uplinks; ends with a table
	$(CARGO) build --release -p roam6 -p roam6-lab $(FLEET)
	target/release/roam6-lab demo

demo-shim6: DEPS = build lab
demo-shim6: deps ## two hosts with two providers: each provider fails once, and two connections survive
	$(CARGO) build --release -p roam6 -p roam6-lab $(FLEET)
	target/release/roam6-lab demo-shim6

demo-geonet: DEPS = build lab
demo-geonet: deps ## three vehicles and a roadside unit: IPv6 over GeoNetworking, one to three hops; SECURED=1: signed
	$(CARGO) build --release -p roam6 -p roam6-lab $(FLEET)
	target/release/roam6-lab demo-geonet $(if $(SECURED),--secured) --svg target/demo-geonet.svg

demo-mptcp: DEPS = build lab
demo-mptcp: deps ## an MPTCP transfer: tunnel, direct path, a move, direct path again; plots the path of its bytes
	$(CARGO) build --release -p roam6 -p roam6-lab $(FLEET)
	target/release/roam6-lab demo-mptcp --svg target/demo-mptcp.svg

demo-bonding: DEPS = build lab
demo-bonding: deps ## one TCP download over two uplinks, of which one is pulled and comes back; plots the octets of each
	$(CARGO) build --release -p roam6 -p roam6-lab $(FLEET)
	target/release/roam6-lab demo-bonding --svg target/demo-bonding.svg

demo-fleet: DEPS = build fleet lab
demo-fleet: deps ## three home agents are one: one is cut off, one loses the store, one is upgraded; ends with a table
	$(CARGO) build --release -p roam6 -p roam6-lab $(FLEET)
	target/release/roam6-lab demo-fleet

test: DEPS = build fleet lab browser
test: deps lint ## lint and all tests; ends with one line that counts them
	@scripts/run-tests

test-vm: DEPS = build lab vm
test-vm: deps ## tests that need another kernel (ip6tnl, IPsec, WireGuard, netem, radios), on Debian's in a virtual machine; minutes
	@scripts/test-vm

throughput-vm: DEPS = build lab vm
throughput-vm: deps ## instructions for each packet, compared with ip6tnl, WireGuard and SRv6 of Debian's kernel; minutes
	@scripts/throughput-vm

test-codecs: DEPS = cross
test-codecs: deps ## the codecs' tests on emulated MIPS of both byte orders; minutes
	@scripts/test-codecs

test-lowend: DEPS = build lab cross boards
test-lowend: deps ## emulated boards (MIPS with 40 MB, arm64) as mobile routers: time, memory, loss, throughput
	@scripts/test-lowend

measure-boards: DEPS = build lab vm cross boards
measure-boards: deps ## instructions a packet on emulated boards (MIPS, arm64, x86_64): plain routing, ip6tnl, BPF; minutes
	$(CARGO) build -p roam6
	@scripts/measure-boards -p mipsel arm64 x86_64
	@scripts/measure-boards mipsel arm64 x86_64

manual: DEPS = build manual
manual: deps ## manual pages and shell completions into target/manual/
	@scripts/make-manual

deb: DEPS = build package
deb: deps ## Debian package into target/packages/
	$(CARGO) build --release -p roam6 --features roam6/fleet
	@scripts/make-deb

test-deb: DEPS = build package vm
test-deb: deb ## installs and purges the package in a clean Debian, and runs the service under systemd in a virtual machine
	@scripts/test-deb

dist: DEPS = build cross
dist: deps ## static binaries for routers (x86_64, aarch64, armv7, mipsel) into target/dist/; fails if one is too large
	@scripts/make-dist

release: DEPS = build package cross release
release: deps ## packages, archives, image, bills of materials, checksums: target/packages/ (ROAM6_RELEASE_KEY=NAME signs)
	@scripts/release/all

verify-release: DEPS = release
verify-release: deps ## verifies target/packages/; REBUILD=1 builds the same commit in another folder, and compares
	@scripts/release/verify $(if $(REBUILD),--rebuild)

lint: ## formatting, clippy without a warning, the import rules of proto, and whether the fuzz targets compile
	$(CARGO) fmt --all --check
	@scripts/check-layers
	@scripts/count-cycles --check
	$(CARGO) clippy --workspace --all-targets $(FLEET) -- -D warnings
	$(CARGO) clippy -p roam6 --no-default-features -- -D warnings
	# A check links nothing: any path stands for the fuzzer's C++ library, which is not compiled then.
	CUSTOM_LIBFUZZER_PATH=$(CURDIR)/fuzz/Cargo.toml $(CARGO) check --manifest-path fuzz/Cargo.toml --target-dir target

fuzz: DEPS = build fuzz
fuzz: deps ## each fuzz target for MINUTES=10
	@scripts/run-fuzz $(or $(MINUTES),10)

report: DEPS = build lab
report: DEPS += $(if $(BOARDS),vm cross boards)
report: deps ## all experiments (QUICK=1: short runs; BOARDS=1: emulated boards too), on one page: target/report/index.html
	$(CARGO) build --release -p roam6 -p roam6-lab $(FLEET)
	$(if $(BOARDS),scripts/measure-boards -p mipsel arm64 x86_64)
	target/release/roam6-lab report $(if $(QUICK),--quick)

clean: ## remove build products
	$(CARGO) clean
