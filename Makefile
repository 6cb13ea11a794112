# saguin: everything a clone needs, from Node, npm and make alone.
#
#   make run      start the broker with fixtures/quickstart.yaml on port 1883
#   make test     unit, contract, wire and crash tests
#   make build    executables in dist/; make deb  packages of them
#   make ci       what .ci/run calls: check, test-executable, test-built, interop, bench-smoke
#
# The first target that needs them fetches the pinned Deno and the locked dependencies; afterwards
# nothing here goes to the network, except `interop` and `bench` for clients, `build` for the runtimes of
# other machines, and `build`, `deb` and `test-built` for tools (packaging/tools.sh).

DENO_VERSION := 2.9.6

# A Deno of exactly the pinned version that is already on PATH (asked for its real executable, since
# what is on PATH may be a launcher that does not pass signals on), else the one below .deno/.
ASK := if (Deno.version.deno === "$(DENO_VERSION)") console.log(Deno.execPath())
DENO := $(shell deno eval '$(ASK)' 2>/dev/null)
PINNED := .deno/deno-$(DENO_VERSION)
ifeq ($(DENO),)
DENO := $(CURDIR)/$(PINNED)
endif

export NO_COLOR := 1
export DENO_NO_UPDATE_CHECK := 1

# What counts as a test is a file that declares one, whatever it is called. They run as two halves side by
# side: most of a test's time is waiting, and one after another they take half an hour.
HALF_A := tests/crash tests/storage tests/model tests/config tests/auth tests/topics tests/platform \
	tests/packaging
DECLARE_TESTS = grep -rl --include='*.ts' --exclude-dir=support --exclude-dir=interop \
	--exclude-dir=built 'Deno\.test'
TESTS_A = $(shell $(DECLARE_TESTS) $(HALF_A))
TESTS_B = $(filter-out $(TESTS_A),$(shell $(DECLARE_TESTS) tests))
TYPED = $(wildcard main.ts) $(shell find src tests bench packaging -name '*.ts')

# What `build` and `deb` are of: names of packaging/targets.ts with commas. KIND is compiled or portable;
# empty is what the machine has the base for (packaging/build.ts).
LINUX := linux-x86_64,linux-arm64
TARGETS := $(LINUX),macos-x86_64,macos-arm64
KIND :=
comma := ,

VERSION := $(shell sed -n 's/^export const VERSION = "\(.*\)";/\1/p' src/version.ts)
HOST := $(shell uname -sm | sed "s/Linux /linux-/; s/Darwin /macos-/; s/aarch64/arm64/")
BUILT := $(CURDIR)/dist/saguin-$(VERSION)

.PHONY: run test test-a test-b check interop bench bench-smoke campaign build deb test-executable \
	test-built release-check ci clean dependencies

run: bin/saguin run/saguin.yaml
	exec bin/saguin --config run/saguin.yaml

# Types are what `check` is for; here they would only be checked twice.
test: bin/saguin
	$(MAKE) --no-print-directory --keep-going --jobs=2 --output-sync=target test-a test-b

# Each half takes its ports from its own half of the range (tests/support/ports.ts).
test-a:
	SAGUIN_PORTS=20000-26000 $(DENO) test --allow-all --cached-only --no-check $(TESTS_A)
test-b:
	SAGUIN_PORTS=26000-32000 $(DENO) test --allow-all --cached-only --no-check $(TESTS_B)

check: dependencies
	$(DENO) check --cached-only $(TYPED)
	$(DENO) lint --quiet
	$(DENO) fmt --check --quiet
	$(DENO) run --allow-read=tests --cached-only tests/coverage_of_rules.ts

# Unmodified clients against a running broker; the first run installs the clients.
interop: bin/saguin
	tests/interop/clients.sh
	tests/interop/operations_tools.sh
	$(DENO) test --allow-all --cached-only --no-check tests/interop/*.ts

# The tables of bench/RESULTS.md. Narrow it with ARGS, see bench/publish.ts --help.
bench: bin/saguin
	bench/support/peers.sh
	$(DENO) run --allow-all --cached-only bench/publish.ts $(ARGS)
	$(DENO) run --allow-all --cached-only bench/idle.ts $(ARGS)
	$(DENO) run --allow-all --cached-only bench/doors.ts
	$(DENO) run --allow-all --cached-only bench/amqp.ts
	$(DENO) run --allow-all --cached-only bench/topics.ts
	$(DENO) run --allow-all --cached-only bench/fanout.ts
	$(DENO) run --allow-all --cached-only bench/queue.ts
	$(DENO) run --allow-all --cached-only bench/reconnect_storm.ts
	$(DENO) run --allow-all --cached-only bench/login.ts
	$(DENO) run --allow-all --cached-only --v8-flags=--expose-gc bench/storage.ts
	$(DENO) run --allow-all --cached-only bench/startup.ts

# Seconds instead of minutes: shows that the benches still run, not how fast anything is.
bench-smoke: bin/saguin
	bench/support/peers.sh
	$(DENO) run --allow-all --cached-only bench/publish.ts --smoke
	$(DENO) run --allow-all --cached-only bench/idle.ts --smoke
	$(DENO) run --allow-all --cached-only bench/doors.ts --smoke
	$(DENO) run --allow-all --cached-only bench/amqp.ts --smoke
	$(DENO) run --allow-all --cached-only bench/topics.ts --smoke
	$(DENO) run --allow-all --cached-only bench/fanout.ts --smoke
	$(DENO) run --allow-all --cached-only bench/queue.ts --smoke
	$(DENO) run --allow-all --cached-only bench/reconnect_storm.ts --smoke
	$(DENO) run --allow-all --cached-only bench/login.ts --smoke
	$(DENO) run --allow-all --cached-only --v8-flags=--expose-gc bench/storage.ts --smoke
	$(DENO) run --allow-all --cached-only bench/startup.ts --smoke

# The seeded campaigns (kills under load, malformed streams, fuzzing, random steps) at ten times their
# length in CI. Their seeds are printed; SAGUIN_SEED repeats one.
campaign: bin/saguin
	SAGUIN_CAMPAIGN=10 $(DENO) test --allow-all --cached-only --no-check tests/crash/ \
	tests/wire/malformed_streams_test.ts tests/mqtt/codec/fuzz_test.ts \
	tests/storage/conformance/random_test.ts tests/model/ tests/amqp/hostile_test.ts \
	tests/amqp/job_contest_test.ts tests/amqp/wire/

build: dependencies
	packaging/tools.sh $(subst $(comma), ,$(TARGETS))
	$(DENO) run --allow-all --cached-only packaging/build.ts --targets '$(TARGETS)' --kind '$(KIND)'

deb: TARGETS := $(LINUX)
deb: build
	packaging/tools.sh deb
	$(DENO) run --allow-all --cached-only packaging/deb.ts --targets '$(TARGETS)'

# The executables of `deb`, where people bring them: alone in a small Debian, installed as a package, on
# arm64 under an emulator. Takes root, for users and mounts of their own.
SMOKE = $(DENO) test --allow-all --cached-only --no-check tests/packaging/built/smoke_test.ts
test-built: deb
	packaging/tools.sh test
	packaging/debian/root.sh .packaging/debian.tar
	$(DENO) test --allow-all --cached-only --no-check $(addprefix tests/packaging/built/, \
	  archive_test.ts launcher_test.ts inflate_test.ts debian_test.ts image_test.ts)
	rm -rf run/debian && mkdir -p run/debian run/tests
	tar -xf .packaging/debian.tar -C run/debian
	install -D -m 0755 $(BUILT)-$(HOST)/saguin run/debian/srv/alone/saguin
	SAGUIN_ROOT=$(CURDIR)/run/debian \
	  SAGUIN_BIN=$(CURDIR)/tests/packaging/built/support/in_debian.sh $(SMOKE)
	rm -rf run/debian .packaging/cache-arm64
	SAGUIN_PATIENCE=10 SAGUIN_MACHINE=aarch64 SAGUIN_CACHE=$(CURDIR)/.packaging/cache-arm64 \
	  SAGUIN_FILE=$(BUILT)-linux-arm64/saguin \
	  SAGUIN_BIN=$(CURDIR)/tests/packaging/built/support/on_arm64.sh $(SMOKE)

# `test`, the suites that start a broker doing so with the executable that was built. Where it cannot be
# built they run from source, so that one failure does not hide the others; it stays a failure.
EXECUTABLE = SAGUIN_BIN=$(BUILT)-$(HOST)/saguin SAGUIN_CACHE=$(CURDIR)/.packaging/cache
test-executable:
	@if $(MAKE) build TARGETS=$(HOST); then $(MAKE) test $(EXECUTABLE); \
	else $(MAKE) test; echo "test-executable: there is no executable to test" >&2; exit 1; fi

# Whether the version TAG names is one to release; what the changelog says of it, for the release's page.
release-check: dependencies
	@mkdir -p .packaging
	$(DENO) run --allow-read --allow-write=.packaging --cached-only packaging/release_check.ts \
	  "$(TAG)" .packaging/notes.md

ci: check test-executable test-built interop bench-smoke

clean:
	rm -rf bin run dist .deno/deno-* .interop .bench .packaging

# ------------------------------------------------------------------------------- what is made

# The platform package's own executable: the `deno` of the npm package is a Node launcher, and its
# install script, which would replace the launcher, may not be allowed to run.
$(PINNED):
	npm install --prefix .deno --no-save --no-audit --no-fund --ignore-scripts deno@$(DENO_VERSION)
	chmod +x .deno/node_modules/@deno/*/deno
	ln -sfn "$$(cd .deno && ls node_modules/@deno/*/deno | head -n 1)" $@
	$@ eval '$(ASK)' | grep -q .

# Asks the cache first, so that a second run is offline and an emptied cache is filled again.
dependencies: $(if $(findstring $(PINNED),$(DENO)),$(PINNED))
	@$(DENO) install --frozen --quiet --cached-only 2>/dev/null || $(DENO) install --frozen

bin/saguin: Makefile packaging/run_flags | dependencies
	@mkdir -p bin
	@printf '%s\n' \
	'#!/bin/sh' \
	'# Made by `make bin/saguin`: the broker on the pinned Deno. exec keeps the process id, so signals' \
	'# and the exit status are the broker'"'"'s own. The smaller nursery costs no speed that the bench' \
	'# can see and a sixth less memory for ten thousand idle connections.' \
	'here=$$(dirname -- "$$(readlink -f -- "$$0")")/..' \
	'export DENO_NO_UPDATE_CHECK=1' \
	'exec $(LAUNCHED) run --quiet --cached-only --frozen $(FLAGS) \' \
	'  --config "$$here/deno.json" "$$here/main.ts" "$$@"' \
	> $@.new
	@chmod +x $@.new && mv $@.new $@
FLAGS = $(shell tr '\n' ' ' <packaging/run_flags)
LAUNCHED = $(if $(findstring $(PINNED),$(DENO)),"$$here/$(PINNED)",'$(DENO)')

# The quickstart keeps its files below run/ instead of where an installed broker would.
run/saguin.yaml: fixtures/quickstart.yaml
	@mkdir -p run
	sed 's#/var/lib/saguin#$(CURDIR)/run#g' $< > $@
