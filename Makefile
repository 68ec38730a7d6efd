# `make check` is what the README names and CI runs: it sets up what it needs
# and passes all tests of the quick gate. `make help` lists the rest.

TOOL := go tool -modfile=tools.mod
export CGO_ENABLED = 0

.PHONY: help build check test lint race fuzz examples nightly bench reference clean

help: ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

build: ## the binary, in bin/dsh
	go build -trimpath -ldflags='-s -w' -o bin/dsh ./cmd/dsh

check: build lint race examples ## the quick gate: build, lint, tests under the race detector, examples

lint: ## format, vet, staticcheck, exhaustive switches, unused parameters, unchecked errors
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { echo 'gofmt would change:'; gofmt -l $$(git ls-files '*.go'); exit 1; }
	go vet ./...
	GOOS=darwin go vet ./...
	GOOS=windows go vet ./...
	$(TOOL) staticcheck ./...
	$(TOOL) exhaustive -check=switch -typeignore '^(reflect.Kind|regexp/syntax.Op)$$' ./...
	$(TOOL) unparam -tests=false ./...
	$(TOOL) errcheck -exclude .errcheck -ignoretests ./...

test: ## tests without the race detector
	go test ./...

race: ## tests under the race detector (needs a C compiler)
	CGO_ENABLED=1 go test -race -timeout 15m ./...

examples: build ## starts each example
	./examples/run

fuzz: ## each fuzz target for FUZZTIME
	./.ci/fuzz $(or $(FUZZTIME),1m)

nightly: check ## full counts, fuzzing, benchmarks
	DSH_TEST_FULL=1 CGO_ENABLED=1 go test -race -timeout 4h ./...
	$(MAKE) fuzz bench

bench: ## the benchmarks of the hot paths
	go test -run '^$$' -bench . -benchmem ./...

reference: ## generates docs/reference and the picture anew
	go test ./docs/... -update

clean:
	rm -rf bin
