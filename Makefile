# The usual commands, one line each. What must hold is in .ci/run.
.PHONY: build test short long race fuzz interop conformance bench base durable hostile docs tables check nightly release

build:       ; go build work
test:        ; go run ./internal/testall
short:       ; go run ./internal/testall -short
race:        ; .ci/run race
# make fuzz TARGET=FuzzOpen TIME=1m
fuzz:        ; FUZZ='^$(or $(TARGET),.)$$' FUZZTIME=$(or $(TIME),10s) .ci/run fuzz
# long: also what the others leave out, because it lasts or needs other people's programs
long:        ; SAGA_LONG=1 go run ./internal/testall -timeout 20m
interop:     ; .ci/node && .ci/debian && SAGA_REQUIRE_NODE=1 SAGA_REQUIRE_DEBIAN=1 go test -count=1 ./interop/...
conformance: ; .ci/node && SAGA_REQUIRE_NODE=1 go test -count=1 -v ./interop -run Conformance
bench:       ; go test ./bench -bench $(or $(BENCH),.) -benchtime 500x
# make base COMMIT=v0.1.0: the servers of that commit beside ours, round by round
base:        ; d=$$(mktemp -d) && git worktree add -q --detach $$d/then $(COMMIT) && go test -C $$d/then -c -o $$d/then.test ./bench && go test -c -o $$d/now.test ./bench && for i in $$(seq 31); do for v in then now; do $$d/$$v.test -test.bench $(or $(BENCH),.) -test.benchtime 500x >> $$d/$$v.txt; done; done; (cd $$d && go run golang.org/x/perf/cmd/benchstat@latest then.txt now.txt); git worktree remove --force $$d/then; rm -r $$d
durable:     ; cd bench/durable && GOWORK=off go test -mod=mod -timeout 30m -benchtime 3s -bench $(or $(BENCH),.) $(ARGS)
hostile:     ; go test ./interop/hostile -run TestWorstRequests -v
# What programs write into documents: transcripts and golden files in seconds, the table of the worst requests in minutes.
docs:        ; go test ./interop -run TestProtocols -update && go test ./steps -update
tables:      ; go test ./interop/hostile -run TestWorstRequests -update
check:       ; .ci/run
nightly:     ; NIGHTLY=1 .ci/run
# make release VERSION=v0.1.0: what a release has, in dist/
release:     ; packaging/release $(VERSION)
