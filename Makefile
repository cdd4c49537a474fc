# SPDX-License-Identifier: Apache-2.0

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# sudo resets PATH and may unset or empty HOME; Go needs both.
export PATH := $(or $(PATH),/usr/sbin:/usr/bin:/sbin:/bin):/usr/local/go/bin
export HOME := $(or $(HOME),$(shell getent passwd $$(id -u) | cut -d: -f6))

# Go rebuilds a package when a file of its folder changes, but not when a header that it includes from another folder
# does. So a hash of all headers is part of the flags; those of perf and of tests are included from their own folders only.
HEADERS := $(shell find . \( -name .git -o -name bin -o -name testdata -o -path ./perf \) -prune -o \( -name '*.h' -o -name '*.def' \) -print0 | \
	LC_ALL=C sort -z | xargs -0 cat | sha256sum | cut -c1-12)
# Control-flow protection is here and in docker/Dockerfile, because #cgo lines may not have it; they have the other
# flags that harden C.
CFI := $(if $(filter aarch64,$(shell uname -m)),-mbranch-protection=standard,-fcf-protection)
export CGO_CFLAGS := -g -O2 $(CFI) -DCAUSEWAY_HEADERS=0x$(HEADERS)
# One set of flags for programs and tests, so that nothing is compiled twice; and nothing in it that differs between two
# clones, so that a second one finds in Go's cache what the first one compiled.
# Tests are linked without Go's DWARF, which takes half of the linker's time; programs have it.
export GOFLAGS := -trimpath -buildmode=pie -ldflags=-w

GO_NEEDED := 1.26
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null)
FUZZTIME ?= 10s
# How many packages are tested at a time: some wait.
AT_ONCE ?= 5
# After how many seconds a build says that it takes long.
PATIENCE ?= 5
E2E_TIMEOUT ?= 60m
IMAGE ?= causeway
BASE ?=
GO_IMAGE ?=
BENCH ?=
RUNS ?= 5
FILE ?=
SOME ?= .
DURATION ?= 60s
SEED ?= 0
FABRICS ?= 1
SEGMENTS ?= 1
PORTS ?= 1
SLOW ?= ./lcore ./app/causeway ./perf/dut ./app/bridge ./dpdk ./app/doctor ./app/soak ./app/systemd ./fleet/... ./ibside/... ./lcore/... ./tables
SCENARIOS ?=
BIN ?= bin
# Further options of Go's linker.
LINK ?=
DEMO ?=

# The programs to build: the main packages of app and perf.
PROGRAMS := ./app/causeway $(if $(wildcard perf/causeway-perf/*.go),./perf/causeway-perf)

# Packages to test with the race detector: those of Go that start goroutines, or have locks or atomic variables. Those with C
# of their own are left to the other sanitizers.
RACED := ./ibside/fabric/... ./ibside/sa ./lcore/manage $(addprefix ./lcore/manage/,ask bridges inbox learner nodes proxyqps sidr) \
	$(addprefix ./app/,bridge/link bridge/rivals command console demo logs seats systemd web) ./fleet/bfd ./fleet/peers

# Packages whose tests run C, to be run with the sanitizers. TestCFuzzers does it for lcore, and TestReaders for tables.
SANITIZED := ./dpdk ./ibside/fabricport ./ibside/multipath ./ibside/verbs ./lcore/pgm

# Debian 12's packages: to build; to check and fuzz C; tshark and scripting for tests; a subnet manager, a simulated
# subnet, etcd, BIRD for its BFD, and FRR for its multicast routing; for virtual machines, the units and the manual pages;
# shells for completion tests. On a machine with InfiniBand disable opensm and ibacm, because their packages start a subnet
# manager and ibacm; etcd, bird and frr start, too.
PACKAGES := \
	build-essential pkg-config libdpdk-dev dpdk dpdk-dev libibverbs-dev librdmacm-dev ca-certificates \
	clang clang-format libclang-rt-14-dev \
	tshark tcpdump jq python3 lua5.4 \
	opensm ibsim-utils ibacm etcd-server bird2 frr \
	bc bison flex qemu-system-x86 iproute2 procps xz-utils busybox-static systemd groff-base e2fsprogs mount \
	fish zsh

# To look at the web page: 95 MB, which only tests need.
PACKAGES += $(if $(filter deps test,$(MAKECMDGOALS)),chromium-headless-shell)

# To build the Debian package.
PACKAGING := debhelper dpkg-dev

##@ Use
.PHONY: help
help: ## list the targets
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@ / { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z0-9-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' Makefile

.PHONY: build
build: deps go programs ## build bin/causeway

.PHONY: programs
programs:
	@{ sleep $(PATIENCE) </dev/null >/dev/null 2>&1 && echo 'build: compiling; the first time this takes minutes'; } & says=$$!; code=0; mkdir -p $(BIN); \
	go build -buildvcs=false -ldflags '-X main.version=$(VERSION) $(LINK)' -o $(BIN)/ $(PROGRAMS) || code=$$?; \
	kill $$says 2>/dev/null || true; \
	exit $$code

.PHONY: demo
demo: build ## run a bridge between two fabrics on this machine for 20 seconds; DEMO=-keep: until Ctrl-C, with a web page
	@bin/causeway demo -duration 20s $(DEMO)

.PHONY: demo-fleet
demo-fleet: build ## run three bridges as one fleet on this machine for 20 seconds; one is killed, and another one drained
	@bin/causeway demo -fleet -duration 20s $(DEMO)

.PHONY: deb
deb: PACKAGES += $(PACKAGING)
deb: build ## build the Debian package, in bin
	@packaging/build-deb '$(VERSION)'

.PHONY: image
image: ## build the container image IMAGE; set BASE and GO_IMAGE where there is no registry
	@VERSION='$(VERSION)' docker/build-image '$(IMAGE)' '$(BASE)' '$(GO_IMAGE)'

.PHONY: docs
docs: go ## regenerate the references and manual pages from the source
	@go test ./config -run 'TestReference|TestExampleFile|TestManual' -update
	@go test ./app/command ./app/logs ./app/web -run 'TestReference|TestManual' -update
	@go test ./app/causeway -run 'TestMan|TestDocsDrops' -update

.PHONY: clean
clean: ## remove bin
	@rm -rf bin

##@ Check
# Packages of whole bridges, whose work has deadlines: they wait more than they compute, and hold beside two busy loops (make flaky).
BRIDGES := ./app/bridge ./app/causeway ./app/soak

# Three bridges that are judged by the millisecond: make e2e tests them when nothing else is tested.
FLEET := ^TestFleetOfBridges$$

# Those that take longest begin first.
LONGEST := ./lcore $(BRIDGES) ./perf/bench ./ibside/verbs ./perf/dut ./tables ./app/web

# What go test -json prints, for people; .ci/run has the numbers of all added up in CAUSEWAY_TALLY.
COUNT = go run ./.ci/count $(if $(CAUSEWAY_TALLY),-tally '$(CAUSEWAY_TALLY)') -name

.PHONY: test
test: build ## build and run all tests that need no virtual machine
	@[[ -n $$(type -P prometheus) ]] || $(MAKE) -s prometheus || echo 'test: Prometheus is missing; the tests that need it are skipped'
	@. .ci/fair.sh; trap unfair EXIT; fair; \
	go test -json -vet=off -timeout 20m -p $(AT_ONCE) -skip '$(FLEET)' $(LONGEST) $$(go list ./... | grep -vxF "$$(go list $(LONGEST))") | $(COUNT) tests

.PHONY: variants
variants: build ## test concurrent Go again with the race detector, and the packet path with the C for CPUs other than x86
	@go test -json -vet=off -short -tags portable -skip '^(TestCFuzzers|TestReaders.*)$$' ./lcore ./tables | $(COUNT) portable & portable=$$!; code=0; \
	go test -json -vet=off -race -buildmode=exe $(RACED) | $(COUNT) race || code=$$?; \
	wait $$portable && exit $$code

.PHONY: lint
lint: deps go ## gofmt, go vet, staticcheck, deadcode, clang-format, aarch64, the tree's rules
	@.ci/lint

.PHONY: e2e
e2e: build ## test against real RoCE hosts in virtual machines (root, some minutes)
	@[[ $$(id -u) == 0 ]] || { echo 'e2e: needs root, for network namespaces and taps; run sudo make e2e'; exit 1; }
	@apt-cache show linux-image-amd64 >/dev/null 2>&1 || apt-get -qq update
	@echo 'e2e: three bridges as one fleet'
	@go test -json -vet=off -count=1 -run '$(FLEET)' ./app/causeway | $(COUNT) fleet
	@echo 'e2e: the packages that need no virtual machine'
	@go test -json -vet=off -tags e2e -count=1 $$(go list -tags e2e ./app/e2e/... | grep -v '/app/e2e$$') | $(COUNT) e2e
	@echo 'e2e: the scenarios in virtual machines, in two lanes; building the guests takes minutes the first time'
	@app/e2e/lanes -test.timeout $(E2E_TIMEOUT)

.PHONY: packages-deps
packages-deps: PACKAGES += $(PACKAGING) lintian debootstrap systemd-container buildah
packages-deps: deps

.PHONY: packages
packages: packages-deps build prometheus ## test the Debian package and the image: build, install and run them (root, some minutes)
	@[[ $$(id -u) == 0 ]] || { echo 'packages: needs root, to install whole systems in folders; run sudo make packages'; exit 1; }
	@go test -json -tags e2e -count=1 -timeout 20m ./packaging | $(COUNT) packages -v

.PHONY: soak
soak: build ## run the bridge for DURATION (default 60s) while all around it fails at random, by SEED, with FABRICS, SEGMENTS, PORTS (root)
	@[[ $$(id -u) == 0 ]] || { echo 'soak: needs root, for network namespaces; run sudo make soak'; exit 1; }
	@go test -count=1 -v -timeout 0 -run TestSoak ./app/soak -duration $(DURATION) -seed $(SEED) -fabrics $(FABRICS) -segments $(SEGMENTS) -ports $(PORTS)

.PHONY: flaky
flaky: build ## test SLOW, the packages that take longest, RUNS times beside two busy loops; SCENARIOS=PATTERN: these, too (root)
	@AT_ONCE='$(AT_ONCE)' FLEET='$(FLEET)' .ci/flaky '$(RUNS)' $(if $(SCENARIOS),-scenarios '$(SCENARIOS)') $(SLOW)

.PHONY: fuzz
fuzz: deps go ## run each fuzzer, of Go and of C, for FUZZTIME (default 10s); 1000x is a number of inputs
	@.ci/fuzz '$(FUZZTIME)'

# Tests that break the C to see it noticed build it without these flags. The EAL's memory is never freed, so leaks are not looked
# for: the tests count mbufs.
.PHONY: sanitize
sanitize: deps go ## test the C with the address and undefined behaviour sanitizers, and the tables with the thread sanitizer
	@CGO_CFLAGS='-g -O1 -fsanitize=undefined -fno-sanitize-recover=all -DCAUSEWAY_HEADERS=0x$(HEADERS)' \
		CGO_LDFLAGS=-fsanitize=undefined ASAN_OPTIONS=detect_leaks=0 \
		go test -asan -buildmode=exe -short -timeout 20m -skip 'Notices?$$' $(SANITIZED)
	@go test -run '^TestCFuzzers$$' ./lcore && go test -run '^TestReaders' ./tables

# The copy of the tree and what ended tests leave are in one folder, which goes with the run.
.PHONY: mutants
mutants: deps go ## plant small mistakes one at a time, and see that tests notice each; SOME selects by pattern, FILE keeps the table
	@dir=$$(mktemp -d); trap "rm -rf $$dir" EXIT; \
	go build -o $$dir/mutants ./.ci/mutants && TMPDIR=$$dir $$dir/mutants -some '$(SOME)' -table '$(FILE)'

.PHONY: bench
bench: build ## measure the packet path on this machine; BENCH sets options
	@bin/causeway-perf bench $(BENCH)

# The build of another commit is made in a folder of its own.
.PHONY: fleet-upgrade
fleet-upgrade: build ## upgrade three bridges one by one, under traffic, from the commit BEFORE to this one (root)
	@[[ $$(id -u) == 0 ]] || { echo 'fleet-upgrade: needs root, for network namespaces; run sudo make fleet-upgrade BEFORE=COMMIT'; exit 1; }
	@[[ '$(BEFORE)' ]] || { echo 'fleet-upgrade: name the commit to upgrade from: make fleet-upgrade BEFORE=COMMIT'; exit 1; }
	@before=$$(mktemp -d); trap "rm -rf $$before" EXIT; \
	git clone -q . $$before && git -C $$before checkout -q '$(BEFORE)' && $(MAKE) -C $$before build && \
	CAUSEWAY_FLEET_BEFORE=$$before/bin/causeway go test -v -count=1 -timeout 20m -run '^TestFleetUpgrade$$' ./app/causeway

.PHONY: fleet-figures
fleet-figures: build ## measure what is lost when bridges of a fleet fail, in RUNS runs (default 5), for a table on FILE or standard output (root)
	@[[ $$(id -u) == 0 ]] || { echo 'fleet-figures: needs root, for network namespaces; run sudo make fleet-figures'; exit 1; }
	@figures=$$(mktemp); trap 'rm -f '"$$figures" EXIT; code=0; \
	CAUSEWAY_FLEET_FIGURES=$$figures go test -v -count=$(RUNS) -timeout 0 -run '^TestFleetOf(Bridges|Sixteen)$$' ./app/causeway >&2 || code=$$?; \
	bin/causeway-perf fleet $$figures $(if $(FILE),>'$(FILE)') && exit $$code

##@ Prepare
.PHONY: deps
deps: ## install missing Debian packages (as root)
	@have=" $$(dpkg-query -W -f '$${db:Status-Status}:$${Package} ' $(PACKAGES) 2>/dev/null || true)"; missing=(); \
	for p in $(PACKAGES); do [[ $$have == *" installed:$$p "* ]] || missing+=($$p); done; \
	(( $${#missing[@]} )) || exit 0; \
	[[ $$(id -u) == 0 ]] || { echo "deps: missing: $${missing[*]}; run sudo make deps"; exit 1; }; \
	echo "deps: installing $${missing[*]}"; \
	export DEBIAN_FRONTEND=noninteractive; log=$$(mktemp); \
	{ apt-get -q update && apt-get -q -y install --no-install-recommends "$${missing[@]}"; } >$$log 2>&1 </dev/null \
		|| { tail -n 20 $$log; echo "deps: apt-get failed; its output is in $$log"; exit 1; }; \
	rm -f $$log

.PHONY: prometheus
prometheus: bin/promtool bin/prometheus ## get Prometheus, for tests of the dashboard's and the alerts' queries

# Extracted from Debian's package, because installing it would start a daemon.
bin/promtool bin/prometheus &:
	@echo 'prometheus: downloading it from Debian'; mkdir -p bin; here=$$PWD; dir=$$(mktemp -d); trap 'rm -rf '"$$dir" EXIT; cd $$dir; \
	apt-get -qq download prometheus 2>log || { cat log; echo 'prometheus: the download failed; try apt-get update'; exit 1; }; \
	dpkg-deb --fsys-tarfile prometheus_*.deb | tar x ./usr/bin/promtool ./usr/bin/prometheus; \
	touch usr/bin/*; mv usr/bin/promtool usr/bin/prometheus $$here/bin/

.PHONY: go
go: ## check that Go is installed and new enough
	@have=$$(go env GOVERSION 2>/dev/null || true); have=$${have#go}; \
	if [[ -z $$have ]]; then what='is not in PATH nor in /usr/local/go/bin'; else what="is $$have"; fi; \
	[[ -n $$have && $$(printf '%s\n' $(GO_NEEDED) "$$have" | sort -V | head -n 1) == $(GO_NEEDED) ]] || { \
		echo "go: $(GO_NEEDED) or later is needed, but Go $$what; see https://go.dev/doc/install"; exit 1; }
