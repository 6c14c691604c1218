# Every job of the project. `make help` lists them; CI runs `make test`.
SHELL := /bin/sh
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

GO ?= go
CARGO ?= cargo
TOOLS := $(CURDIR)/.cache/bin
STATICCHECK_VERSION := v0.8.2
FUZZTIME ?= 20s

# The binaries need no C library; the race detector does and sets this itself.
export CGO_ENABLED ?= 0

# End-to-end tests start real processes and need the binaries; all else does not.
UNIT = $$($(GO) list ./... | grep -v /go/e2e)

.PHONY: help
help: ## what there is to make
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: tools
tools:
	@scripts/need go cargo cc

# Tests of what talks to servers run them; absent ones are installed, or named.
.PHONY: servers
servers:
	@scripts/need postgres redis-server

.PHONY: build
build: tools ## bin/sluice and bin/sluice-dataplane
	@mkdir -p bin
	$(CARGO) build --locked --release -p sluice-dataplane
	@cp -f target/release/sluice-dataplane bin/.dataplane && mv -f bin/.dataplane bin/sluice-dataplane
	$(GO) build -trimpath -o bin/sluice ./go/cmd/sluice

.PHONY: run
run: build ## builds what is missing and runs sluice with its embedded defaults
	bin/sluice run --dev

.PHONY: test
test: tools servers ## every test: the fast ones, Rust, Go, the peers, then end to end
	$(GO) test -vet=off -short ./go/internal/event/... ./go/internal/retry/... ./shm-abi/... \
		./scripts/...
	$(CARGO) test --locked --workspace
	@$(MAKE) --no-print-directory sim-world
	SLUICE_NEED_SERVERS=1 $(GO) test $(UNIT)
	cd bench/peers && $(GO) test ./...
	cd bench/peers/store && $(GO) test ./...
	cd go/verifybench && $(GO) test ./...
	@$(MAKE) --no-print-directory e2e

.PHONY: e2e
e2e: build servers ## the end-to-end tests, with real processes of the release build
	SLUICE_NEED_SERVERS=1 $(GO) test -count=1 -timeout 20m ./go/e2e/...

.PHONY: race
race: tools ## the Go tests under the race detector
	CGO_ENABLED=1 $(GO) test -race $(UNIT)
	cd bench/peers && CGO_ENABLED=1 $(GO) test -race ./...

SEED ?= 1
PLOT ?=

.PHONY: sim
sim: sim-world ## admission in virtual time, judged; SCENARIO=O1h SEED=7 PLOT=out.png replays one
ifdef SCENARIO
	$(GO) run ./go/sim -seconds -seed $(SEED) -plot "$(PLOT)" $(SCENARIO)
else
	$(GO) run ./go/sim -seed $(SEED) -seeds 3
endif

.PHONY: sim-world
sim-world: tools
	@mkdir -p bin
	$(CARGO) build --locked --release -p sluice-sim
	@cp -f target/release/sluice-sim bin/.sim && mv -f bin/.sim bin/sluice-sim

.PHONY: soak
soak: build sim-world servers ## all tests at their full counts (SLUICE_SOAK=1); takes long
	SLUICE_SOAK=1 $(CARGO) test --locked --workspace
	SLUICE_SOAK=1 $(GO) test -count=1 -timeout 60m ./...

.PHONY: fuzz
fuzz: tools ## each fuzz target for FUZZTIME (20s): Rust's under libFuzzer, then Go's
	@scripts/need g++
	@scripts/fuzz $(FUZZTIME)

.PHONY: lint
lint: tools verify $(TOOLS)/staticcheck-$(STATICCHECK_VERSION) ## all that judges without running
	$(GO) vet ./...
	$(TOOLS)/staticcheck-$(STATICCHECK_VERSION) ./...
	cd bench/peers && $(GO) vet ./... && $(TOOLS)/staticcheck-$(STATICCHECK_VERSION) ./...
	cd bench/peers/store && $(GO) vet ./... && $(TOOLS)/staticcheck-$(STATICCHECK_VERSION) ./...
	cd go/verifybench && $(GO) vet ./... && $(TOOLS)/staticcheck-$(STATICCHECK_VERSION) ./...
	$(GO) run ./scripts/lint imports
	$(GO) run ./scripts/lint tidy
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	GOARCH=arm64 $(GO) vet ./...
	@scripts/check-arm64

.PHONY: verify
verify: tools ## generated files are fresh, all is formatted, manifests are tidy
	@scripts/verify

.PHONY: generate
generate: tools ## writes the generated files again (layout faces, gRPC code)
	$(GO) run ./shm-abi/gen
	CARGO_TARGET_DIR=$(CURDIR)/target/proto-gen $(CARGO) run --quiet --locked \
		--manifest-path proto/gen/Cargo.toml

.PHONY: bench
bench: bench-tools ## sluice beside its peers, in the same minute; BENCH_FLAGS goes to bench/run
	@SLUICE_BENCH_CPU=0 scripts/with-postgres --if-present $(TOOLS)/bench $(BENCH_FLAGS)
ifndef BENCH_FLAGS
	@$(MAKE) --no-print-directory bench-tls
	@$(MAKE) --no-print-directory bench-verify
endif

.PHONY: bench-overload
bench-overload: bench-tools ## overload and recovery, judged; BENCH_FLAGS=-quick is two minutes of it
	$(TOOLS)/bench -overload -gate $(BENCH_FLAGS)

.PHONY: bench-delivery
bench-delivery: bench-tools ## delivery beside clients written by hand, judged
	@SLUICE_BENCH_CPU=$$(($$(nproc) - 1)) scripts/with-postgres --if-present $(TOOLS)/bench -delivery -gate $(BENCH_FLAGS)

.PHONY: bench-tls
bench-tls: bench-tools ## TLS beside nginx and crypto/tls, and beside plain HTTP, judged
	@scripts/need nginx
	$(TOOLS)/bench -tls -gate $(BENCH_FLAGS)

.PHONY: bench-store
bench-store: ## the journal beside the bare disk and other stores, its life and start, judged
	@scripts/need go
	@mkdir -p $(TOOLS)
	cd bench/peers/store && $(GO) build -o $(TOOLS)/storepeers .
	$(GO) build -o $(TOOLS)/storebench ./go/storebench
	@scripts/with-postgres --if-present $(TOOLS)/storebench -gate $(BENCH_FLAGS)

.PHONY: bench-verify
bench-verify: ## a verdict beside the providers' own libraries and the bare primitive, judged
	@scripts/need go
	@mkdir -p $(TOOLS)
	cd go/verifybench && $(GO) build -o $(TOOLS)/verifybench .
	$(TOOLS)/verifybench -gate $(BENCH_FLAGS)

.PHONY: bench-tools
bench-tools: build
	$(CARGO) build --locked --release -p sluice-load
	@mkdir -p $(TOOLS)
	cd bench/peers && $(GO) build -o $(TOOLS)/peers .
	$(GO) build -o $(TOOLS)/bench ./bench/run

.PHONY: clean
clean: ## removes all that was built
	rm -rf bin .cache sluice-data
	$(CARGO) clean

# Pinned, and kept inside the tree; a new version is a new file.
$(TOOLS)/staticcheck-$(STATICCHECK_VERSION):
	@mkdir -p $(TOOLS)
	GOBIN=$(TOOLS) $(GO) install honnef.co/go/tools/cmd/staticcheck@$(STATICCHECK_VERSION)
	@mv $(TOOLS)/staticcheck $@
