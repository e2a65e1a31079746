# `make serve` serves the default model; `make test` runs the tests; `make check` is what CI runs.
BIN := .venv/bin
STUBS := clients/python
# For JSON through Envoy, with the details of errors.
DESCRIPTORS := deploy/envoy/headrace.binpb

.DEFAULT_GOAL := help
.PHONY: help serve setup test clients interop check format lint types imports contract protos clean

help: ## Show the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

serve: ## Serve the default model: HTTP on 1919, gRPC on 1920 (ARGS="--model …" for another)
	@bin/setup
	@exec $(BIN)/headrace serve $(ARGS)

setup: ## Make the environment for development
	@bin/setup dev

test: setup ## Run the tests (ARGS="tests/server -k name" for some)
	@$(BIN)/pytest $(ARGS)

clients: setup ## Install the stock clients and build those of clients/ that tests try, else left out
	@tests/stock_clients/setup
	@clients/web/build.sh
	@$(BIN)/python -m tests.interop --build

interop: setup ## Build the clients of clients/, try them all and write the matrix into docs/interop.md
	@$(BIN)/python -m tests.interop --write

check: lint types imports contract clients test ## Run everything that CI runs

format: setup ## Format Python and protobuf
	@$(BIN)/ruff check --fix --quiet . ; $(BIN)/ruff format --quiet . && $(BIN)/buf format -w

lint: setup ## Lint and check the format
	@echo "==> ruff" && $(BIN)/ruff check . && $(BIN)/ruff format --check .

types: setup ## Check the types
	@echo "==> mypy" && $(BIN)/mypy

imports: setup ## Check who imports whom
	@echo "==> import-linter" && $(BIN)/lint-imports

contract: setup ## Lint the contract, compare it with the released one, and require fresh stubs
	@echo "==> buf" && $(BIN)/buf lint && $(BIN)/buf format --diff --exit-code
	@$(BIN)/buf breaking --against protos/released.binpb
	@echo "==> stubs" && $(MAKE) --no-print-directory protos
	@test -z "$$(git status --porcelain $(STUBS)/headrace/v1 $(DESCRIPTORS))" || { \
	  git status --short $(STUBS)/headrace/v1 $(DESCRIPTORS); \
	  echo "error: the committed stubs differ from protos/; run 'make protos' and commit" >&2; exit 1; }

# protoc looks for the plugins that write types on the PATH.
protos: export PATH := $(CURDIR)/$(BIN):$(PATH)
protos: setup ## Generate the Python stubs and Envoy's descriptors from protos/
	@python -m grpc_tools.protoc -Iprotos --python_out=$(STUBS) --mypy_out=quiet:$(STUBS) \
	  protos/headrace/v1/*.proto
	@python -m grpc_tools.protoc -Iprotos --grpc_python_out=$(STUBS) --mypy_grpc_out=quiet:$(STUBS) \
	  protos/headrace/v1/*_service.proto
	@python -m grpc_tools.protoc -Iprotos -I$$(python -c 'import sysconfig; print(sysconfig.get_path("purelib"))') \
	  --include_imports --descriptor_set_out=$(DESCRIPTORS) protos/headrace/v1/*.proto google/rpc/error_details.proto
	@clients/python-grpclib/generate.sh

clean: ## Remove the environment and caches
	rm -rf .venv .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	rm -rf tests/stock_clients/python/.venv tests/stock_clients/node/node_modules
	rm -rf clients/*/node_modules clients/*/dist clients/*/src/gen
