# The targets are shorthands; README.md gives the commands themselves.

.PHONY: build test test-all bench lint fuzz fmt

build:
	CGO_ENABLED=0 go build -trimpath -o hermes-env ./cmd/hermes-env

test:
	go test ./...

# Slow tests, and those that need Docker, an SSH server, Python or Node.
test-all:
	HERMES_ENV_TESTS=all go test ./...

bench:
	go test -run '^$$' -bench . -benchtime 3x ./agentloop/... ./parsers/... ./trajectories/... ./toolcontext/...

lint:
	test -z "$$(gofmt -l .)"
	go vet ./...
	go run honnef.co/go/tools/cmd/staticcheck@v0.8.2 ./...

fmt:
	gofmt -w .

# Every fuzz target for a few seconds; FUZZTIME=3m for a real run.
FUZZTIME ?= 5s
fuzz:
	./.ci/fuzz $(FUZZTIME)
