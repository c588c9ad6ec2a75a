# waggle: build, test and demo. `make help` lists the targets.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

NODE   ?= node
CLANG  ?= clang
STRIP  ?= llvm-strip
CXX    ?= g++
CC     ?= gcc
# static: libbpf, libelf and zlib inside the addon. dynamic: the system's libbpf.so.
LIBBPF ?= static

B := build
BPF_SOURCES := $(wildcard bpf/*.bpf.c)
BPF_HEADERS := $(wildcard bpf/*.h bpf/lib/*.h bpf/layout/*.h)
BPF_OBJECTS := $(BPF_SOURCES:bpf/%.bpf.c=$(B)/bpf/%.bpf.o)
TS_SOURCES   = $(shell find src -name '*.ts')

.PHONY: help setup build gen lint fmt check test coverage demo bench clean

help: ## list the targets
	@grep -hE '^[a-z][a-z-]*:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

setup: ## find what is missing on this machine and install it
	@tools/setup

build: $(B)/waggle_native.node $(BPF_OBJECTS) $(B)/layouts.checked $(B)/waggle.mjs $(B)/lab.mjs $(B)/echo.mjs ## build everything into build/

demo: setup ## a tour on real traffic in a lab; KEEP=1 leaves the lab up
	@$(MAKE) --no-print-directory build
	@KEEP=$(KEEP) tools/demo

node_modules/.package-lock.json: package.json package-lock.json
	npm ci --no-audit --no-fund
	@touch $@

# --- BPF ---------------------------------------------------------------------

MULTIARCH := $(shell $(CC) -print-multiarch 2>/dev/null)
BPF_CFLAGS := -O2 -g -Wall -Wextra -Werror -target bpf -mcpu=v3 -Ibpf $(if $(MULTIARCH),-I/usr/include/$(MULTIARCH))

$(B)/bpf/%.bpf.o: bpf/%.bpf.c $(BPF_HEADERS) Makefile
	@mkdir -p $(@D)
	$(CLANG) $(BPF_CFLAGS) -c $< -o $@
	$(STRIP) -g $@

# Those on the flat flow table are made of the same sources.
$(filter %_flat.bpf.o,$(BPF_OBJECTS)): $(B)/bpf/%_flat.bpf.o: bpf/%.bpf.c

# --- addon -------------------------------------------------------------------

NODE_INC = $(shell $(NODE) -p "require('node-api-headers').include_dir")
NAPI_INC = $(shell $(NODE) -p "require('node-addon-api').include_dir")
UV_INC  ?= $(shell $(NODE) -p "require('path').join(process.execPath,'../../include/node')")
include native/build.mk

# --- generated files -----------------------------------------------------------

GEN_LAYOUTS := node_modules/.bin/tsx tools/gen-layouts/main.ts
GEN_INPUTS  := $(B)/waggle_native.node $(B)/bpf/layout.bpf.o node_modules/.package-lock.json

GEN_DOCS    := node_modules/.bin/tsx tools/gen-docs/main.ts

gen: $(GEN_INPUTS) ## write the generated files (codecs of the BPF layouts, layouts.lock, reference pages)
	$(GEN_LAYOUTS)
	$(GEN_DOCS)

.PHONY: gen-check
gen-check: $(B)/layouts.checked $(B)/docs.checked
# A pinned layout that changed without a new version stops the build here.
$(B)/layouts.checked: $(GEN_INPUTS) bpf/layouts.lock src/ebpf/generated/layouts.ts $(wildcard tools/gen-layouts/*.ts)
	$(GEN_LAYOUTS) --check
	@touch $@

$(B)/docs.checked: $(TS_SOURCES) $(shell find test -name '*.ts' -o -name '*.script') bpf/layout/outcome.h $(wildcard tools/gen-docs/*.ts docs/reference/*.md)
	$(GEN_DOCS) --check
	@touch $@

# --- TypeScript --------------------------------------------------------------

ESBUILD := node_modules/.bin/esbuild --bundle --platform=node --target=node20 --format=esm --log-level=warning \
  --banner:js="import{createRequire as __createRequire}from'node:module';const require=__createRequire(import.meta.url);"

$(B)/waggle.mjs: $(TS_SOURCES) node_modules/.package-lock.json
	$(ESBUILD) --minify --keep-names --line-limit=160 --sourcemap=linked src/cli/main.ts --outfile=$@

$(B)/lab.mjs: $(shell find tools/labkit -name '*.ts' 2>/dev/null) node_modules/.package-lock.json
	$(ESBUILD) tools/labkit/main.ts --outfile=$@

$(B)/echo.mjs: $(wildcard tools/labkit/echo/*.ts) node_modules/.package-lock.json
	$(ESBUILD) tools/labkit/echo/main.ts --outfile=$@

# --- quality -------------------------------------------------------------------

C_SOURCES = $(wildcard bpf/*.[ch] bpf/*/*.h native/*.cc native/*.h native/*.c)
BIOME    := node_modules/.bin/biome

lint: build ## types, lint, format, import directions, links, layouts and generated files
	node_modules/.bin/tsc
	$(BIOME) ci --error-on-warnings .
	clang-format --dry-run --Werror $(C_SOURCES)
	$(NODE) tools/check-imports.mjs
	$(NODE) tools/check-links.mjs

check: lint gen-check ## everything that can be checked without running

fmt: node_modules/.package-lock.json ## format all sources
	$(BIOME) check --write .
	clang-format -i $(C_SOURCES)

TIERS := unit scripts native bpf cli netns cluster
# The cheap tiers run on the newest LTS, too.
ON_NEWER_NODE := unit@24 scripts@24 native@24
# Stock kernels, each in a machine of its own.
ON_KERNELS := vm@5.10 vm@6.1 vm@6.12

test: setup ## run every tier of the suite; ONLY=text narrows it
	@$(MAKE) --no-print-directory check kube-parts
	@tools/run-tests $(TIERS) $(ON_NEWER_NODE) $(ON_KERNELS)

.PHONY: kube-parts $(TIERS:%=test-%)
kube-parts: ## build kube-apiserver and kube-proxy for the cluster tier (once)
	@tools/kube-parts

test-cluster: kube-parts
$(TIERS:%=test-%): test-%: build ## (also test-unit test-bpf ...) run one tier
	@tools/run-tests $*

.PHONY: test-vm
test-vm: build ## load, attach, and send packets under stock kernels, in QEMU
	@tools/run-tests $(ON_KERNELS)

.PHONY: test-differential
test-differential: build ## random packets through the programs and the reference; SEED=number N=packets
	@SEED=$(SEED) N=$(N) node_modules/.bin/vitest run --project bpf test/bpf/differential

.PHONY: test-oracle
test-oracle: build kube-parts ## random histories through the plan and the real kube-proxy; SEED=number N=histories HISTORY=number
	@SEED=$(SEED) N=$(N) HISTORY=$(HISTORY) node_modules/.bin/vitest run --project cluster test/cluster/oracle

coverage: build ## which lines and branches of bpf/ the bpf tier reaches; ONLY="file file" runs those test files
	@CLANG=$(CLANG) BPF_CFLAGS="$(BPF_CFLAGS)" node_modules/.bin/tsx tools/coverage/main.ts $(ONLY)

bench: build ## measure what the documentation claims; see docs/performance.md
	@tools/bench

.PHONY: bench-datapath
bench-datapath: build ## the datapath's part of it, about twelve minutes; QUICK=1: five. tools/bench report puts it into the docs
	@tools/bench datapath $(if $(QUICK),--quick)

clean: ## remove what was built
	rm -rf $(B)
