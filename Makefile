.DEFAULT_GOAL := help
.PHONY: help run dev test test-versions lint format typecheck coverage check bench engines docs picture ui house image build
PYTHON ?= python3
ROOMS := calls cli evals flow graphs hooks models nodes policy prompts run servers state store stream text tools turn ui
BIN := .venv/bin
EXTRAS := postgres,workers,desk,objects,ag-ui,keyring,otel,prices,eval,examples
# The slow tests come first and stand together: a worker that has none left takes some from another.
PARALLEL := -n auto --dist worksteal
unexport GOAL

help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9_-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# Two layers of one environment: what the package needs, and what its development needs as well.
# Pip says what it does, for on a slow line it takes minutes. To compile is left to the first start,
# which compiles what it uses.
.venv/.package: pyproject.toml constraints.txt
	@echo "Making a Python environment in .venv"
	$(PYTHON) -m venv .venv
	@echo "Installing loopwright and what it needs (about 150 MB; development tools come with make test)"
	$(BIN)/python -m pip install --disable-pip-version-check --no-compile -c constraints.txt -e .
	@touch $@

.venv/.installed: .venv/.package
	@echo "Installing the development tools as well (about 400 MB)"
	$(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

# Neither make nor the shell reads the goal: quotes, dollars and backticks reach the command as typed.
run: export LOOPWRIGHT_GOAL = $(if $(strip $(value GOAL)),$(value GOAL),$(error GOAL is empty: make run GOAL="what you want done"))
run: .venv/.package ## Install the package, then run one goal: make run GOAL="…"
	@$(BIN)/loopwright run -- "$$LOOPWRIGHT_GOAL"

dev: .venv/.installed ## Start the server that LangGraph Studio connects to
	$(BIN)/langgraph dev

test: .venv/.installed ## Install the tools as well, then run the whole suite
	$(BIN)/pytest $(PARALLEL) $(TEST)

# Both ends of the ranges in pyproject.toml, each in an environment of its own. The tools come last,
# and raise only what they must.
test-versions: ## The suite with the newest and with the oldest packages that pyproject.toml allows; needs uv
	@failed=; for end in highest lowest-direct; do \
		export VIRTUAL_ENV="$(CURDIR)/.venv/$$end"; kept="$$VIRTUAL_ENV/kept.txt"; \
		uv venv --quiet --allow-existing --seed --python $(PYTHON) "$$VIRTUAL_ENV" && \
		uv pip install --quiet --upgrade --resolution $$end -e '.[$(EXTRAS)]' && \
		uv pip freeze | grep -E '^(langchain|langchain-core|langgraph)==' > "$$kept" && \
		uv pip install --quiet -c "$$kept" -e '.[dev]' && \
		echo $$end: $$(cat "$$kept") && "$$VIRTUAL_ENV/bin/pytest" $(PARALLEL) $(TEST) || failed="$$failed $$end"; \
	done; [ -z "$$failed" ] || { echo "failed:$$failed"; exit 1; }

lint: .venv/.installed ## Check format, lint rules and room boundaries
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports

format: .venv/.installed ## Format and apply safe fixes
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.links/loopwright:
	mkdir -p $@
	for f in $(ROOMS) __init__.py py.typed; do ln -sfn ../../$$f $@/$$f; done

typecheck: .venv/.installed .links/loopwright ## Type-check package and tests
	$(BIN)/mypy .links/loopwright tests

coverage: .venv/.installed ## The suite with the coverage gate
	$(BIN)/pytest $(PARALLEL) --cov --cov-report=term

check: lint typecheck test ## Everything to run before a commit

docs: .venv/.installed ## Refresh the generated parts of README and docs from the code
	PYTHONPATH=tests $(BIN)/python -m support.docs_parts README.md docs/*.md

picture: .venv/.installed ## Record the run of the front page anew, into docs/run.svg; needs tmux
	$(BIN)/python benchmarks/picture.py

bench: .venv/.installed ## Measure what the graphs cost, beside others, and write it into docs/costs.md
	$(BIN)/python benchmarks/costs.py --write

engines: .venv/.installed ## Run turns through DBOS, Celery and Temporal's activities, with kills; ENGINES="dbos threads=20"
	$(BIN)/python benchmarks/engines.py $(ENGINES)

ui: .venv/.installed ## Build the components; needs Node. CHAT=<a built Agent Chat UI> takes pictures of each graph
	$(BIN)/python -c "from loopwright.ui import props_schema; print(props_schema(), end='')" > ui/props.schema.json
	cd ui && npm install --no-package-lock --no-audit --no-fund && npm run check && npm run build
	$(if $(CHAT),PYTHONPATH=tests $(BIN)/python -m support.chat_pages $(CHAT) ui/pictures)

house: .venv/.installed ## Weigh the house beside its budgets: lines, files entered, channels, rows
	$(BIN)/python benchmarks/house.py

image: ## Renew the versions and hashes of the deployment image; needs uv
	uv pip compile --quiet pyproject.toml --extra workers examples/deploy/image.in -c constraints.txt \
		--python-version 3.12 --python-platform linux --generate-hashes --no-annotate --no-emit-index-url \
		--custom-compile-command "make image" --upgrade -o examples/deploy/constraints.txt

# The package of the root takes every module of its folder: setuptools can leave none out.
build: .venv/.package ## Build the wheel
	@for f in *.py; do test $$f = __init__.py || { echo "$$f would go into the wheel: move it away first"; exit 1; }; done
	$(BIN)/python -m pip wheel --quiet --no-deps -w dist .
