# RouterFleet: what can be done with this repository. "make" alone prints it.
#
# A command is described by the text behind "##"; "##@" starts a section.
# local.mk (not in git) may override the variables below.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# One set of Go flags everywhere: they are part of the build cache's key, and the
# Kubernetes libraries take minutes to compile a second time.
export GOFLAGS := -buildvcs=false -trimpath
export CGO_ENABLED := 0

VERSION ?= dev
# Image tags, and where their tars go.
TAG ?= dev
IMAGES := manager router enginesim loadgen
# Nodes of the local cluster.
NODES ?= 2
# The cluster that install and uninstall talk to: yours when KUBECONFIG is set,
# else the local one.
KUBECONFIG ?= $(CURDIR)/.cluster/kubeconfig
export KUBECONFIG
KUBECTL ?= $(if $(wildcard bin/kube/kubectl),$(CURDIR)/bin/kube/kubectl,kubectl)
# How long one fuzz target runs with "make fuzz".
FUZZTIME ?= 30s

LDFLAGS := -s -w -X github.com/routerfleet/routerfleet/internal/version.Version=$(VERSION)

-include local.mk

##@ Start here

.PHONY: help
help: ## Print this
	@awk 'BEGIN {FS = ":.*##"; printf "Usage: make COMMAND\n"} \
	  /^##@/ {printf "\n%s\n", substr($$0, 5)} \
	  /^[a-zA-Z0-9_-]+:.*?##/ {printf "  %-16s %s\n", $$1, $$2} \
	  END {printf "\nVariables: NODES, TAG, FUZZTIME, KUBECONFIG\n"}' $(firstword $(MAKEFILE_LIST))

.PHONY: demo
demo: ## A fleet under load on a local cluster (root; ten minutes the first time)
	go run ./hack/demo up

.PHONY: demo-down
demo-down: ## Remove the demo and its cluster
	go run ./hack/demo down

##@ Test

.PHONY: test
test: ## Everything: unit, fuzz, envtest, end-to-end on a new cluster, lint (root)
	go run ./hack/testrun

.PHONY: test-unit
test-unit: ## Unit tests, the repository's checks included
	go run ./hack/testrun unit race nested

.PHONY: test-race
test-race: ## Unit tests of router, controllers and internal under the race detector
	go run ./hack/testrun race

.PHONY: test-envtest
test-envtest: ## Tests against a real API server and etcd
	go run ./hack/testrun envtest

.PHONY: test-e2e
test-e2e: ## End-to-end tests on a new local cluster (root), or on E2E_KUBECONFIG's
	go run ./hack/testrun e2e

.PHONY: test-e2e-full
test-e2e-full: ## The same on three nodes, three times, each in another order
	go run ./hack/testrun --nodes 3 --rounds 3 e2e

.PHONY: fuzz
fuzz: ## Fuzz every target for FUZZTIME (default 30s); new failures land in testdata
	go run ./hack/testrun --fuzztime $(FUZZTIME) fuzz

.PHONY: bench
bench: ## Measure router, index, events and tokens beside plainer ones, write docs/performance.md
	go run ./test/bench --write docs/performance.md
	go run ./test/bench/index --write docs/performance.md
	go run ./test/bench/events --write docs/performance.md
	go run ./test/bench/tokens --write docs/performance.md
	go run ./test/bench/chats --write docs/tokenizer.md
	go run ./test/bench/snapshot --large --write docs/performance.md

.PHONY: simulate-full
simulate-full: ## The fault matrix of the replicas' indexes with 10,000 seeds; an hour and more
	go test -run TestFaultMatrix -count=1 -timeout 4h ./test/simulation/faults -args -runs 10000 -box 0

.PHONY: experiment-rolling
experiment-rolling: ## What a rolling update costs of the hit ratio, warm and cold: the whole trace, in virtual time
	go test -tags experiment -run TestRollingExperiment -count=1 -v -timeout 30m ./test/simulation

.PHONY: bench-micro
bench-micro: ## Go benchmarks; compare ten runs with benchstat
	go test -run '^$$' -bench . -benchmem ./router/... ./controllers/... ./internal/...

.PHONY: lint
lint: ## golangci-lint with the import arrows and the Kubernetes API conventions
	hack/ci/lint.sh

##@ Build

.PHONY: build
build: ## The programs for this machine, in bin/
	go build -ldflags '$(LDFLAGS)' -o bin/ ./cmd/manager ./cmd/router

.PHONY: images
images: ## Image tars without Docker, in bin/images/
	go run ./hack/image --out bin/images --tag $(TAG) $(IMAGES)

.PHONY: generate
generate: ## Deepcopy, apply configurations, CRD and reference pages
	hack/tools/generate.sh

.PHONY: verify-generate
verify-generate: ## Fail when "make generate" would change a file
	hack/ci/verify-generate.sh

##@ Cluster

bin/cluster: FORCE
	go build -o $@ ./hack/cluster

.PHONY: cluster-up
cluster-up: bin/cluster ## A local cluster of NODES nodes, no Docker needed (root)
	bin/cluster up --nodes $(NODES)

.PHONY: cluster-load
cluster-load: bin/cluster images ## Build the images and load them into every node
	bin/cluster load $(IMAGES:%=bin/images/%.tar)

.PHONY: cluster-down
cluster-down: bin/cluster ## Remove the local cluster, whatever state it is in
	bin/cluster down

.PHONY: install
install: ## CRD, RBAC and manager into KUBECONFIG's cluster (default: the local one)
	@$(KUBECTL) version >/dev/null 2>&1 || { \
	  echo "no cluster answers at KUBECONFIG=$(KUBECONFIG): make cluster-up, or make install KUBECONFIG=..." >&2; exit 1; }
	$(KUBECTL) apply --server-side -k config/default
	$(KUBECTL) -n routerfleet-system rollout status deployment/routerfleet-manager --timeout=120s

.PHONY: uninstall
uninstall: ## Remove what install put there; fleets are deleted first
	if $(KUBECTL) get crd routerfleets.routerfleet.io >/dev/null 2>&1; then \
	  $(KUBECTL) delete routerfleets.routerfleet.io --all --all-namespaces --timeout=120s; fi
	$(KUBECTL) delete --ignore-not-found -k config/default

.PHONY: clean
clean: ## Remove built programs and logs (keeps the Kubernetes binaries)
	rm -rf bin/manager bin/router bin/cluster bin/images bin/test-logs

.PHONY: FORCE
FORCE:
