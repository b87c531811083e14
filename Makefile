# ubiquityfs: `make run` to try it, `make test` to check it, `make help` for the rest.

SWIFT ?= swift
MOUNT ?= Ubiquity
PREFIX ?= /usr/local
DESTDIR ?=
# mount(8) looks for mount.TYPE in /sbin only, whatever the prefix of the program is.
HELPERDIR ?= /sbin
# Empty to keep the symbols in what is installed.
STRIP ?= -s
SOAK ?= 10
MODEL_MINUTES ?= 10
SOAK_MINUTES ?= 60
KILL_MINUTES ?= 10
CLAIM_MINUTES ?= 10
KILLS ?= 1000
REPLACEMENTS ?= 1000
CEPH_MINUTES ?= 10
MINUTES ?= 10
RESTORES ?= 100
CEPH ?=
ROUNDS ?= 5
SYNC_ROUNDS ?= 3
S3_ROUNDS ?= 3
# More arguments for it, as in S3='--part beside'.
S3 ?=
# More arguments for the measuring program, as in BENCH='--only git'.
BENCH ?=

release_flags := -c release --static-swift-stdlib
binary := .build/release/ubiquityfs
bench := .build/release/ubiquityfs-bench
installed := $(DESTDIR)$(PREFIX)
bash_completions := $(installed)/share/bash-completion/completions
zsh_completions := $(installed)/share/zsh/site-functions
fish_completions := $(installed)/share/fish/vendor_completions.d
units := $(installed)/lib/systemd/user

.DEFAULT_GOAL := build
.PHONY: help setup build run stop demo test archivers soak soak-model soak-kills soak-hangs soak-replace soak-claims soak-ceph soak-rollback soak-revocation soak-tests simulate crash fuzz conformance bench bench-build bench-million bench-sync bench-s3 bench-items bench-space bench-large install uninstall format lint sbom release clean

help: ## say what can be made
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' Makefile

setup: ## install the libraries and tools that are missing (told before it is done)
	@.ci/setup

build: ## build the release binary
	$(SWIFT) build $(release_flags) --product ubiquityfs

run: setup build ## mount a container to play with at ./Ubiquity (MOUNT= elsewhere) and return
	@.ci/start $(binary) "$(MOUNT)"

stop: ## undo `run`; what was written stays in ./.run and the next `run` shows it again
	@.ci/stop $(binary) "$(MOUNT)"

demo: setup build ## watch two devices at work in a directory that is removed afterwards
	@.ci/demo $(binary)

test: ## check imports and format, build, and run every test, real mounts included
	@.ci/setup tests
	@.ci/test $(SWIFT)

archivers: build ## copy placeholders with every archiver and copier that is installed (docs/archivers.md)
	@.ci/setup tests
	@Tests/archivers/table $(binary)

bench: build bench-build ## measure a mount against a native directory (ROUNDS=, BENCH_REPOSITORY=)
	@$(bench) --binary $(binary) --rounds $(ROUNDS) --json .build/bench.json --table .build/bench.md \
	  $(BENCH)

bench-million: build bench-build ## a million files: rates, and what the daemon holds
	@$(bench) files --binary $(binary) --json .build/bench-million.json \
	  --table .build/bench-million.md $(BENCH)

bench-sync: build ## a gibibyte to a backend, beside restic, borg, syncthing and rsync (SYNC_ROUNDS=)
	@.ci/setup bench-sync
	@Tests/bench-sync/bench-sync --binary $(binary) --rounds $(SYNC_ROUNDS) --json .build/bench-sync.json \
	  --table .build/bench-sync.md

bench-large: build ## how late small changes are while a large file is uploaded, how soon that stops (LARGE='--size 10GB --ceph')
	@Tests/latency/measure-large --binary $(binary) $(LARGE)

bench-s3: build ## a store that is 50 ms away, a Ceph, and beside rclone (S3_ROUNDS=, S3='--part beside')
	@.ci/setup bench-s3
	@Tests/s3/measure --binary $(binary) --rounds $(S3_ROUNDS) --json .build/bench-s3.json \
	  --table .build/bench-s3.md $(S3)

bench-items: build ## a new device, one change and removing half of 1,000, 10,000 and 100,000 items (ITEMS=)
	@Tests/items/measure $(binary) $(ITEMS)

bench-space: build ## 4 GiB of work in a budget of 256 MiB: what it holds, and what is fetched again
	@Tests/space/measure $(binary)

bench-build:
	$(SWIFT) build $(release_flags) --product ubiquityfs-bench

soak: build ## an hour of mixed load on two devices (SOAK_MINUTES=)
	@.ci/setup tests
	@Tests/soak/soak --binary $(binary) --minutes $(SOAK_MINUTES)

soak-kills: build ## ten minutes of two devices whose daemons are killed all the time (KILL_MINUTES=)
	@Tests/soak/kills --binary $(binary) --minutes $(KILL_MINUTES)

soak-hangs: build ## a thousand kills under load: commands that hang, and when a new mount answers (KILLS=)
	@Tests/soak/hangs --binary $(binary) --kills $(KILLS)

soak-replace: build ## kills and replacements of daemons that no program notices (KILLS=, REPLACEMENTS=)
	@Tests/soak/replace --binary $(binary) --kills $(KILLS) --replacements $(REPLACEMENTS)

soak-claims: build ## ten minutes of programs that take claims on the same files (CLAIM_MINUTES=)
	@Tests/soak/claims --binary $(binary) --minutes $(CLAIM_MINUTES)

soak-ceph: build ## `soak-kills` on a Ceph whose gateway is killed all the time (CEPH_MINUTES=, CEPH=--faults)
	@.ci/setup services
	@Tests/soak/ceph --binary $(binary) --minutes $(CEPH_MINUTES) $(CEPH)

conformance: build ## run public POSIX suites in a mount and in a native directory (docs/testing.md)
	@Tests/conformance/run $(binary)

soak-rollback: build ## three devices on a store that is set back over and over (RESTORES=, ROLLBACK='--backend ceph')
	@Tests/soak/rollback --binary $(binary) --restores $(RESTORES) $(ROLLBACK)

soak-revocation: build ## what a removed device can still do, on a store (REVOCATION='--backend ceph')
	@Tests/soak/revocation --binary $(binary) $(REVOCATION)

soak-tests: ## run the tests on real mounts over and over (SOAK= times)
	@.ci/setup tests
	.ci/build-tests $(SWIFT)
	@round=0; while [ $$round -lt $(SOAK) ]; do \
	  round=$$((round + 1)); echo "round $$round of $(SOAK)"; \
	  $(SWIFT) test --skip-build --filter EndToEndTests || exit 1; done

crash: ## kill the daemon, cut the power and fail the disk at every place, and print the figures
	@.ci/setup tests
	.ci/build-tests $(SWIFT)
	@status=0; UBIQUITYFS_CRASH=all $(SWIFT) test --skip-build \
	  --filter 'CrashTests|PowerCutTests|FailingDiskTests' > .build/crash.log 2>&1 || status=$$?; \
	  grep -aE 'recorded an issue|^↳|error: Exited' .build/crash.log | head -40; \
	  grep -a ' figures: ' .build/crash.log; exit $$status

fuzz: ## changed input for every decoder of foreign bytes, MINUTES in all (FUZZ='predicate date')
	@.ci/setup tests
	@Tests/Fuzz/run --swift $(SWIFT) --minutes $(MINUTES) $(FUZZ)

soak-model: ## random sequences of system calls against the models, for MODEL_MINUTES minutes each
	@.ci/setup tests
	.ci/build-tests $(SWIFT)
	MODEL_MINUTES=$(MODEL_MINUTES) $(SWIFT) test --skip-build --filter sequencesGoOnForMinutes

simulate: ## simulated lives of devices: one told step by step (SEED=), SIMULATION_RUNS= many, or without end
	$(SWIFT) build -c release --scratch-path .build/simulation --product EngineSimulation
	@$(if $(SEED),SIMULATION_TRACE=1) .build/simulation/release/EngineSimulation \
	  $(or $(SEED),$(SIMULATION_FIRST),1) $(if $(SEED),1,$(SIMULATION_RUNS))

install: ## install the release binary, built if it is not there (PREFIX=, DESTDIR=, HELPERDIR=)
	@test -x $(binary) || $(MAKE) setup build
	install -D -m 755 $(STRIP) $(binary) $(installed)/bin/ubiquityfs
	install -d $(bash_completions) $(zsh_completions) $(fish_completions) $(units)
	$(binary) completion bash > $(bash_completions)/ubiquityfs
	$(binary) completion zsh > $(zsh_completions)/_ubiquityfs
	$(binary) completion fish > $(fish_completions)/ubiquityfs.fish
	for page in docs/man/*.[1-8]; do \
	  install -D -m 644 "$$page" "$(installed)/share/man/man$${page##*.}/$${page##*/}"; done
	install -D -m 755 mount-helpers/mount.ubiquityfs $(DESTDIR)$(HELPERDIR)/mount.ubiquityfs
	for unit in mount-helpers/*.service; do \
	  sed 's|/usr/bin/ubiquityfs|$(PREFIX)/bin/ubiquityfs|g' "$$unit" > "$(units)/$${unit##*/}"; done
	@test -n "$(DESTDIR)" || .ci/replace-daemons $(PREFIX)/bin/ubiquityfs

uninstall: ## remove what `install` put there
	rm -f $(installed)/bin/ubiquityfs $(bash_completions)/ubiquityfs $(zsh_completions)/_ubiquityfs \
	  $(fish_completions)/ubiquityfs.fish $(DESTDIR)$(HELPERDIR)/mount.ubiquityfs
	for page in docs/man/*.[1-8]; do \
	  rm -f "$(installed)/share/man/man$${page##*.}/$${page##*/}"; done
	for unit in mount-helpers/*.service; do rm -f "$(units)/$${unit##*/}"; done

sbom: ## write what the program is made of to .build/sbom.cdx.json, as CycloneDX
	@mkdir -p .build && .ci/sbom $(SWIFT) > .build/sbom.new && mv .build/sbom.new .build/sbom.cdx.json
	@echo .build/sbom.cdx.json

release: setup build ## write the tarball of a release, its SHA-256 and its SBOM to .build/dist
	@.ci/release $(binary) $(SWIFT)

lint: ## check imports, documented claims, fault points, names of commands and format
	@Tests/check-imports
	@Tests/check-claims
	@Tests/check-decoding
	@Tests/check-fault-points
	@Tests/check-commands
	@Tests/check-lines
	@$(SWIFT) format lint --strict --parallel -r Package.swift Sources Tests Examples

format: ## bring the sources into the standard format
	$(SWIFT) format -i --parallel -r Package.swift Sources Tests Examples

clean: ## remove what was built
	rm -rf .build
