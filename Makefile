# What people type.  How the C is built is in csrc/build.mk; every target here sets up what it needs.
#
#   make            the extension, in the tree          make demo      the demonstration
#   make test       the tests (ARGS=... for pytest)     make sweep     a shard of torch's samples (SHARD=k/n)
#   make dlc-opt    the programs in build/              make asan      C and Python under ASan and UBSan
#   make lint       ruff, formats, gcc and clang        make neon      random programs on an emulated ARM
#   make format     ruff and clang-format write
#   make tsan       16 threads under ThreadSanitizer   make inject    every allocation fails once
#   make swaps      folders swapped above the cache
#   make analyse    gcc's static analyser over csrc    make docs      the site of the documentation, in build/site
#   make wheel      wheels in dist/ (PYTHONS=...)       make arm       the extension and tests on an emulated ARM
#   make test-torch tests of capture on another PyTorch (TORCH=2.14.1)
#   make replay     is the generated C the same?        (ACCEPT=1 after a wanted change)
#   make clean      all that was built but .venv

SHELL  := /bin/bash
PYTHON ?= python3
VENV   := .venv
PY     := $(VENV)/bin
JOBS   := $(shell nproc)
MK      = $(MAKE) --no-print-directory -j$(JOBS) -f csrc/build.mk PYTHON=$(PY)/python
ARGS   ?=

.PHONY: build dlc-opt test demo sweep swaps asan tsan inject analyse replay lint format neon arm arm-wheel docs \
        wheel clean test-torch
build: $(VENV)/.installed
	@$(MK) ext

# -- set-up: each stamp is newer than what it was made from, so the second run does nothing ----------

# $(call need,what it is for,package): apt-get where it may, else one line that says what to install.
need = { echo "dlc: $(1) is missing: installing $(2)"; \
         if [ "$$(id -u)" = 0 ]; then sudo=; else sudo="sudo -n"; fi; \
         { $$sudo apt-get update -qq && $$sudo apt-get install -y -qq $(2); } >/dev/null 2>&1 || \
         { echo "dlc: please install it: apt-get install $(2)" >&2; exit 1; }; }

build/.tools:
	@mkdir -p build
	@command -v $(CC) >/dev/null || $(call need,a C compiler,gcc libc6-dev)
	@command -v objcopy >/dev/null || $(call need,objcopy,binutils)
	@echo '#include <libtcc.h>' | $(CC) -E - >/dev/null 2>&1 || $(call need,libtcc,libtcc-dev)
	@echo '#include <Python.h>' | $(CC) -E -I"$$($(PYTHON) -c \
	    'import sysconfig; print(sysconfig.get_path("include"))')" - >/dev/null 2>&1 || \
	    $(call need,Python.h,python3-dev)
	@touch $@

$(PY)/python:
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || $(call need,venv,python3-venv)
	$(PYTHON) -m venv $(VENV)

$(VENV)/.packages: tests/requirements.txt | $(PY)/python
	$(PY)/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

# The package in place: its entry point is what makes backend="dlc" work without an import.
$(VENV)/.installed: pyproject.toml setup.py $(VENV)/.packages | build/.tools
	@$(MK) ext
	DLC_BUILD=build/obj $(PY)/python -m pip install --quiet --disable-pip-version-check \
	    --no-build-isolation --no-deps --editable .
	@touch $@

# -- programs and checks -----------------------------------------------------------------------------

dlc-opt: build/.tools
	@$(MK) programs

test: build dlc-opt
	@$(MK) inject broken
	@$(MK) sanitized B=build/asan/obj BIN=build/asan SAN='$(SAN_FLAGS)' PART=$$($(PY)/python -m tests.shards)
	OMP_WAIT_POLICY=passive $(PY)/python -m pytest -n $(JOBS) --dist loadfile $(ARGS)

demo: build
	$(PY)/python -m examples.demo $(ARGS)

# Shard k of n of torch's operators, modules and optimisers, each in every way; without SHARD that of the commit.
SHARD ?= commit
sweep: build
	$(PY)/python -m tests.ops.sweep --shard=$(SHARD) $(ARGS)

# The way to the cache is swapped while it is walked, a million times; `make test` does a thousand of one of the parts.
SWAP_SHARDS ?= $(shell seq 0 39)
swaps: dlc-opt
	@for k in $(SWAP_SHARDS); do SWAPS=25000 SWAP_SHARD=$$k build/test-jit swap_cache || exit 1; done

# The same sources with sanitizers, in a package of their own; torch itself has leaks, ours are
# counted by the tests.  A report is printed at the end: pytest would swallow it with the process.
SAN_FLAGS := -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
SAN_PKG := build/asan/site/dlc
SAN_LOG := $(abspath build/asan)/report
SAN_LIB  = $(shell $(CC) -print-file-name=libasan.so):$(shell $(CC) -print-file-name=libubsan.so)
asan: build
	@rm -rf $(SAN_PKG) && mkdir -p $(SAN_PKG) && \
	    ln -s $(filter-out %.so %/__pycache__,$(wildcard $(abspath dlc)/*)) $(SAN_PKG)/
	@$(MK) ext programs B=build/asan/obj BIN=build/asan \
	    SAN='$(SAN_FLAGS)' \
	    OUT=$(SAN_PKG)/_C$$($(PY)/python -c \
	        'import sysconfig; print(sysconfig.get_config_var("EXT_SUFFIX"))')
	build/asan/test-jit all
	@rm -f $(SAN_LOG).*
	DLC_FUZZ=$${DLC_FUZZ-800} LD_PRELOAD=$(SAN_LIB) UBSAN_OPTIONS=print_stacktrace=1:log_path=$(SAN_LOG) \
	    ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1:log_path=$(SAN_LOG) PYTHONPATH=build/asan/site:. \
	    DLC_ASAN=1 DLC_BIN=build/asan DLC_OPT=build/asan/dlc-opt \
	    $(PY)/pytest --import-mode=importlib \
	    $(or $(ARGS),tests/ir tests/passes tests/fuzz tests/regress tests/capture \
	    tests/backend/test_results.py tests/backend/test_failing.py tests/backend/test_jit.py \
	    tests/backend/test_artifact.py tests/backend/test_in_place.py --ignore=tests/capture/test_memory.py) \
	    || { cat $(SAN_LOG).* 2>/dev/null; exit 1; }

# Sixteen threads on shared plans, for a minute.
SECONDS_OF_TSAN ?= 60
tsan: build/.tools
	@$(MK) build/tsan/test-threads B=build/tsan/obj BIN=build/tsan SAN='-fsanitize=thread -fno-omit-frame-pointer'
	TSAN_OPTIONS=halt_on_error=0:second_deadlock_stack=1 build/tsan/test-threads $(SECONDS_OF_TSAN)

# Every allocation of a compile and of a call fails once; ARGS for tests/alloc/every.py.
inject: build
	@$(MK) inject
	$(PY)/python -m tests.alloc.every $(ARGS)

# gcc's static analyser; csrc/build.mk says which of its findings are not ours.
analyse: build/.tools
	@$(MK) analyse B=build/analyse

# Is the generated C what it was?  ACCEPT=1 stores what it is now.
replay: build dlc-opt
	$(PY)/python -m tests.replay.replay $(if $(ACCEPT),--accept)

# The C that is as .clang-format has it: all but what stands in columns, tables and formulas on lines of their own.
IN_COLUMNS := $(addprefix csrc/,ir/ir.h ir/cx.h ir/ops.c capture/walk/walk.h capture/aten/special/aten_cephes.h \
              ir/math/%.h codegen/emit/prelude_%.h codegen/strips/%.h codegen/strips/%.c codegen/micro/%.h codegen/micro/%.c)
C_FILES     = $(filter-out $(IN_COLUMNS),$(shell find csrc -name '*.[ch]'))

format: $(VENV)/.packages
	$(PY)/ruff format .
	$(PY)/clang-format -i $(C_FILES)

# On the PATH, or where Debian has one of several versions.
CLANG := $(or $(shell command -v clang),$(lastword $(wildcard /usr/lib/llvm-*/bin/clang)))
lint: build
	$(PY)/ruff check .
	$(PY)/ruff format --check .
	$(PY)/clang-format --dry-run --Werror $(C_FILES)
	@$(MK) check CC=gcc B=build/lint/gcc WERROR=-Werror
	@test -n "$(CLANG)" || $(call need,a second C compiler,clang)
	@$(MK) check CC=$(CLANG) B=build/lint/clang WERROR=-Werror

# 64-bit ARM, under an emulator.  Debian's Python and libtcc for that processor are unpacked in a folder, without root, and the
# system learns of no other architecture.  Python of that folder runs under the emulator, the cross compiler as it is:
# also as the C compiler of the kernels.
ARM      := $(abspath build/arm)
ARM_ROOT := $(ARM)/root
ARM_LIB  := $(ARM)/lib/libtcc.a
ARM_APT   = apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State=$(ARM)/apt \
            -o Dir::State::status=$(ARM)/apt/status -o Dir::Cache=$(ARM)/apt -o APT::Install-Recommends=0
ARM_CC    = aarch64-linux-gnu-gcc -B$(dir $(ARM_LIB)) -isystem $(ARM_ROOT)/usr/include
ARM_MK    = $(MK) B=$(ARM)/obj BIN=$(ARM) OBJCOPY=aarch64-linux-gnu-objcopy NATIVE= CC="$(ARM_CC)" PYTHON=$(ARM)/python
ARM_RUN   = DLC_CC=$(ARM)/cc QEMU_LD_PREFIX=$(ARM_ROOT) qemu-aarch64-static $(ARM)
# what pip takes for that processor: wheels of NumPy, and of what the tests need, beside Debian's Python
ARM_PIP   = $(PY)/python -m pip install --quiet --disable-pip-version-check --no-compile --upgrade --only-binary=:all: \
            --target=$(ARM)/site --implementation=cp \
            --python-version=$$($(ARM)/python -c 'import platform; print(platform.python_version())') \
            $(foreach glibc,36 35 34 31 28 27 17,--platform=manylinux_2_$(glibc)_aarch64) --platform=manylinux2014_aarch64
$(ARM_LIB): | build/.tools
	@command -v aarch64-linux-gnu-gcc >/dev/null || \
	    $(call need,a C compiler for ARM,gcc-aarch64-linux-gnu libc6-dev-arm64-cross)
	@command -v qemu-aarch64-static >/dev/null || $(call need,an emulator of ARM,qemu-user-static)
	@mkdir -p $(ARM)/apt/lists/partial $(ARM)/apt/archives/partial $(ARM_ROOT) && : >$(ARM)/apt/status
	$(ARM_APT) update
	$(ARM_APT) install -y --download-only python3 libpython3-dev libtcc-dev libgomp1 libstdc++6
	for package in $(ARM)/apt/archives/*.deb; do dpkg -x $$package $(ARM_ROOT) || exit 1; done
	@mkdir -p $(dir $@) && ln -sf $(ARM_ROOT)/usr/lib/aarch64-linux-gnu/libtcc.a $@  # libc is the cross compiler's
$(ARM)/python: $(ARM_LIB)
	@printf '%s\n' '#!/bin/bash' 'exec aarch64-linux-gnu-gcc "$${@/#-mcpu=native/-mcpu=cortex-a72}"' >$(ARM)/cc
	@printf '%s\n' '#!/bin/sh' 'export QEMU_LD_PREFIX=$(ARM_ROOT) DLC_CC="$${DLC_CC-$(ARM)/cc}"' \
	    'export PYTHONPATH="$${PYTHONPATH:+$$PYTHONPATH:}$(ARM)/site"' \
	    'exec qemu-aarch64-static $(ARM_ROOT)/usr/bin/python3 "$$@"' >$@
	@chmod +x $(ARM)/cc $@
# A process that a test starts runs under the emulator too.
$(ARM)/site/.installed: $(ARM)/python | $(VENV)/.packages
	$(ARM_PIP) 'numpy>=2' setuptools wheel pytest pytest-xdist hypothesis expecttest tqdm
	@echo 'import sys; sys.executable = "$(ARM)/python"' >$(ARM)/site/sitecustomize.py
	@touch $@

# Both tiers: random programs against the interpreter.
neon: $(ARM)/python
	@$(ARM_MK) programs
	$(ARM_RUN)/test-fuzz --tiers tcc --count 300
	$(ARM_RUN)/test-fuzz --tiers tcc,cc --count 20

# The extension, as a wheel that the emulated Python has unpacked, and the tests that need no torch; ARGS=... for pytest.
# The programs run by scripts that begin with the emulator, since the system does not know files of that processor.
ARM_PROGRAMS := dlc-opt test-jit test-emit test-fuzz
arm-wheel: $(ARM)/site/.installed
	@rm -rf $(ARM)/wheel build/lib.linux-aarch64* build/bdist.linux-aarch64 && mkdir -p $(ARM)/wheel dist
	CC="$(ARM_CC)" OBJCOPY=aarch64-linux-gnu-objcopy NATIVE= DLC_BUILD=$(ARM)/obj \
	    $(ARM)/python setup.py -q bdist_wheel --dist-dir $(ARM)/wheel
	PATH="$(abspath $(PY)):$$PATH" $(PY)/auditwheel repair -w dist $(ARM)/wheel/*.whl
	@ls -sh dist/*aarch64.whl
arm: arm-wheel dlc-opt
	@$(ARM_MK) programs
	$(ARM_PIP) --no-deps --force-reinstall $$(ls -t dist/dlc-*aarch64.whl | head -1)
	@mkdir -p $(ARM)/run && for program in $(ARM_PROGRAMS); do \
	    printf '%s\n' '#!/bin/sh' 'export QEMU_LD_PREFIX=$(ARM_ROOT) DLC_CC="$${DLC_CC-$(ARM)/cc}"' \
	        "exec qemu-aarch64-static $(ARM)/$$program \"\$$@\"" >$(ARM)/run/$$program || exit 1; done; \
	    chmod +x $(ARM)/run/*
	cd $(ARM) && ./python -m dlc verify $(CURDIR)/tests/files/stored/format_1.dlc  # not the dlc of this folder
	DLC_BIN=$(ARM)/run $(PY)/python -m pytest -n $(JOBS) --dist loadfile $(or $(ARGS),tests/ir tests/emit)

# The tests of capture on another version of PyTorch, in an environment of its own: TORCH=2.14.1; ARGS=... for pytest.
# What pip takes may be a build for CUDA, of gigabytes; the CPU is enough.
TORCH      ?= 2.14.1
TORCH_VENV := build/torch-$(TORCH)
TORCH_WITH := numpy setuptools pytest pytest-xdist hypothesis expecttest tqdm rich joblib
$(TORCH_VENV)/.installed: | $(PY)/python
	$(PY)/python -m venv $(TORCH_VENV)
	$(TORCH_VENV)/bin/python -m pip install --quiet --disable-pip-version-check torch==$(TORCH) $(TORCH_WITH)
	@touch $@
test-torch: build dlc-opt $(TORCH_VENV)/.installed
	PYTHONPATH=$(CURDIR) $(TORCH_VENV)/bin/python -m dlc doctor
	PYTHONPATH=$(CURDIR) OMP_WAIT_POLICY=passive $(TORCH_VENV)/bin/python -m pytest -n $(JOBS) --dist loadfile \
	    $(or $(ARGS),tests/capture)

# The documentation as a site.  `make docs ARGS=--help`; a warning is an error.
docs: build dlc-opt
	NO_MKDOCS_2_WARNING=1 $(PY)/python -m mkdocs build --strict $(ARGS)

# A wheel for each Python of PYTHONS, with the manylinux tag that auditwheel finds.  The objects of the tree are used.
# The Python of .venv comes last, so that they are its own again.
PYTHONS ?=
wheel: build
	@rm -rf build/wheel build/lib.* build/bdist.* && mkdir -p build/wheel dist
	@for python in $(PYTHONS); do \
	    DLC_BUILD=build/obj $$python -m pip wheel --quiet --no-deps -w build/wheel . || exit 1; done
	DLC_BUILD=build/obj $(PY)/python -m pip wheel --quiet --no-deps --no-build-isolation -w build/wheel .
	PATH="$(abspath $(PY)):$$PATH" $(PY)/auditwheel repair -w dist build/wheel/*.whl
	@ls -sh dist/*.whl

clean:
	rm -rf build dist *.egg-info dlc/_C*.so dlc/libdlctcc.so $(VENV)/.installed
