# Gantry's targets; `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help

BIN := build/bin
KUBE_VERSION := v1.37.2
REV := $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
VERSION_PKG := k8s.io/component-base/version
LDFLAGS := -s -w \
	-X $(VERSION_PKG).gitVersion=$(KUBE_VERSION) -X $(VERSION_PKG).gitMajor=1 -X $(VERSION_PKG).gitMinor=37 \
	-X $(VERSION_PKG).gitCommit=$(REV) -X $(VERSION_PKG).gitTreeState=clean \
	-X $(VERSION_PKG).buildDate=1970-01-01T00:00:00Z \
	-X github.com/containerd/containerd/v2/version.Version=v2.4.2
export CGO_ENABLED := 0
UP_FLAGS ?=
KUBELET ?= build/kubelet-$(KUBE_VERSION)
DATA_DIR ?= /var/lib/gantry
TESTS ?= ./...
comma := ,

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: deps
deps: ## install what is missing of compilers and tools (Debian packages; root)
	@hack/deps.sh

.PHONY: build
build: binary runtime ## build gantry, runc, the containerd shim, the CNI plugin and the pause program into build/bin

.PHONY: binary
binary: # same compiler flags as the tests (no -trimpath), so that every package is compiled once for both
	@mkdir -p $(BIN)
	@start=$$(date +%s); go build -ldflags '$(LDFLAGS)' -o $(BIN)/gantry ./cmd/gantry; \
		echo "built $(BIN)/gantry in $$(( $$(date +%s) - start )) s"
	@if command -v kubectl >/dev/null; then rm -f $(BIN)/kubectl; else ln -sf gantry $(BIN)/kubectl; fi

.PHONY: runtime
runtime: deps ## build what containers need beside gantry into build/bin (kept in the user's cache)
	@hack/runtime.sh $(BIN)

.PHONY: demo
demo: build ## the whole life of one Pod on this machine, shown step by step; leaves nothing behind (root)
	@hack/demo.sh

.PHONY: up
up: build ## build and run a cluster on this machine until Ctrl-C (root); UP_FLAGS are passed on
	@$(BIN)/gantry up --data-dir $(DATA_DIR) $(UP_FLAGS)

.PHONY: test
test: ## all tests; those with real containers too when root
	@hack/test.sh $(TESTS)

.PHONY: race
race: ## all tests that need no root, with the race detector
	@CGO_ENABLED=1 GANTRY_NO_CONTAINERS=1 go test -race -timeout 20m $(TESTS)

.PHONY: stories
stories: ## rewrite every transcript and the docs rendered from code, then show what changed
	@mkdir -p build
	@for dir in $$(grep -rlE --include='*_test.go' 'flag.Bool\("rewrite"|metriclist.Check|\*rewrite' \
		cmd internal test | xargs -n1 dirname | sort -u); do \
		case $$dir in internal/arch) only=PagesHold ;; *) only=. ;; esac; \
		grep -q 'flag.Bool("rewrite"' $$dir/*_test.go || only=Metrics; \
		go test ./$$dir -count=1 -run $$only -rewrite >build/stories.log 2>&1 || { cat build/stories.log; exit 1; }; \
	done
	@git --no-pager diff --stat -- internal test docs

.PHONY: mutants
mutants: ## break every row, show that its tests notice (ROWS=BND-06,API-1* AREA=BND,PRB SINCE=commit; 1 to 2 hours)
	@go run ./hack/mutants -rows '$(ROWS)' -areas '$(or $(AREA),$(AREAS))' -since '$(SINCE)'

.PHONY: mutants-random
mutants-random: ## change what decides at random, count what tests notice (PACKAGES=podplan,control/ N=60 SEED=1)
	@go run ./hack/mutants/random -packages '$(PACKAGES)' $(if $(N),-n $(N)) $(if $(SEED),-seed $(SEED))

.PHONY: lint
lint: ## static checks; every message names the fix
	@hack/lint.sh

.PHONY: ledger
ledger: ## render docs/compatibility/features.md from the rows that tests name, the last `make test` and `make mutants`
	@go run ./hack/featurestatus
	@git --no-pager diff --stat -- docs/compatibility/features.md

.PHONY: bench
bench: build ## measure everything but the scheduler; writes docs/performance (root; some 20 minutes)
	@go run ./hack/bench

.PHONY: bench-node
bench-node: build ## measure one node with 0, 50, 110 Pods and 1,000 fake ones (root; 8 minutes)
	@go run ./hack/bench -only node

.PHONY: bench-page
bench-page: ## render docs/performance/README.md from the JSON files beside it
	@go run ./hack/bench -render

.PHONY: schedperf
schedperf: build ## measure the scheduler (root; 13 minutes; GANTRY_OPENB=DIR adds openb, GANTRY_OTHER=PROGRAM)
	@hack/schedperf.sh docs/performance $(BIN)/gantry

.PHONY: pictures
pictures: ## draw the pictures of the page for README and docs/user/dashboard.md, by a browser over a testcluster
	@hack/pictures.sh

.PHONY: why
why: build ## score what `gantry why` says about broken Pods, and try the remedies it prints (needs root)
	@go run ./hack/whyscore

.PHONY: recordings
recordings: build ## compare with upstream's recorded answers; writes differences.md (Pods' lives need root)
	@hack/recordings.sh

.PHONY: lifediff
lifediff: build ## the same Pods on upstream's kubelet and ours (root; RUN=regexp RANDOM_LIVES=n SEED=n LIFE_FLAGS=…)
	@test -x '$(KUBELET)' || { echo "building upstream's kubelet $(KUBE_VERSION)"; \
		go build -C hack/conformance/upstream -ldflags '-s -w -X $(VERSION_PKG).gitVersion=$(KUBE_VERSION) \
		-X $(VERSION_PKG).gitMajor=1 -X $(VERSION_PKG).gitMinor=37' -o '$(abspath $(KUBELET))' \
		k8s.io/kubernetes/cmd/kubelet; }
	@go build -o build/lifediff ./hack/lifediff
	@build/lifediff -kubelet '$(KUBELET)' -run '$(RUN)' -random $(or $(RANDOM_LIVES),0) \
		-seed $(or $(SEED),1) $(LIFE_FLAGS)

.PHONY: conformance
conformance: build ## upstream's certified tests on two nodes (root; some 45 minutes; FOCUS=… SKIP=… run a part)
	@go run ./hack/conformance -focus '$(FOCUS)' -skip '$(SKIP)'

.PHONY: conformance-storage
conformance-storage: build ## upstream's External Storage suite (root; 45 minutes; FOCUS=… SKIP=… run a part)
	@go run ./hack/conformance -storage -focus '$(FOCUS)' -skip '$(SKIP)'

.PHONY: sidecars
sidecars: ## build the CSI project's programs that test/sidecars runs into build/sidecars
	@hack/sidecars.sh build/sidecars

.PHONY: vm
vm: build ## a virtual machine whose memory, disk and process ids run out (root; ten minutes; SCENARIO=memory,disk,…)
	@hack/deps.sh vm
	@go run ./hack/vm $(subst $(comma), ,$(SCENARIO))

.PHONY: kills
kills: binary ## SIGKILL an API server twenty times in 10,000 writes: nothing acknowledged is lost or there twice
	@go test ./test/crash -count=1 -timeout 30m -kills 20 -writes 10000

.PHONY: faults
faults: ## random schedules of killed parts: 200 with fake containers, 20 with real ones (root; 25 minutes; SEED=n)
	@go test ./testcluster/faults -count=1 -timeout 90m -schedules 200 -seed $(or $(SEED),0)
	@if [ "$$(id -u)" = 0 ]; then $(MAKE) build && \
		go test ./test/faults -count=1 -timeout 60m -schedules 20 -pods 27 -seed $(or $(SEED),0); fi

.PHONY: breaker-real
breaker-real: ## breaker with real containers (root; 10 minutes a seed; SEED=n SEEDS=n ONLY='…|…' TEXT=1 REMEDIES=1)
	@GANTRY_REAL=1 GANTRY_SEED=$(or $(SEED),1) GANTRY_SEEDS=$(or $(SEEDS),1) GANTRY_ONLY='$(ONLY)' GANTRY_TEXT=$(TEXT) \
		GANTRY_REMEDIES=$(REMEDIES) go test ./test/breaker -count=1 -timeout 2h -v -run RealBreakIsNamed

.PHONY: breaker
breaker: ## break things by seed and score `gantry why`: the open and the held-out part (SEED=n; some 15 minutes)
	@mkdir -p build
	@GANTRY_HELDOUT=all GANTRY_FRESH=1 GANTRY_SEED=$(or $(SEED),1) \
		go test ./test/breaker -count=1 -timeout 40m -v -run 'BreakIsNamed|TruthIsTrue' | \
		tee build/breaker.log | grep -E '^ *(\||held-out part|---|ok|FAIL)|points, '

.PHONY: clean
clean: ## remove build/ (the caches under ~/.cache/gantry stay)
	@rm -rf build
