# How the C becomes machine code: the only description of sources, flags and libraries.
#
#   make -f csrc/build.mk ext         the extension, at $(OUT)             (setup.py and `make build`)
#   make -f csrc/build.mk libtcc      the shared object that holds libtcc, beside $(OUT)
#   make -f csrc/build.mk programs    in $(BIN), without libpython: dlc-opt and tests
#   make -f csrc/build.mk inject      the extension with allocations that fail when told to: build/inject/site (tests/alloc)
#   make -f csrc/build.mk broken      the extension with bugs on purpose: $(BIN)/broken/site (tests/passes)
#   make -f csrc/build.mk sanitized   the fuzzer with part PART of the sources under sanitizers: $(BIN)/test-fuzz-PART
#   make -f csrc/build.mk analyse     by gcc's static analyser
#   make -f csrc/build.mk check       every source compiled, nothing linked (`make lint`)
#
# B=folder of objects, BIN=folder of programs, PYTHON=interpreter to build for, OUT=file of the extension,
# SAN=sanitizer flags, WERROR=-Werror; for another processor CC, OBJCOPY and NATIVE=.  The extension finds libtcc in a
# shared object of its own beside it, which anybody can replace (see NOTICE).  Run from the root of the tree.

B       ?= build/obj
BIN     ?= build
PYTHON  ?= $(or $(wildcard .venv/bin/python),python3)
WERROR  ?=
SAN     ?=
OBJCOPY ?= objcopy
NATIVE  ?= -march=native
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)

WARN     = -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla \
           -Wno-missing-field-initializers $(WERROR)
FP       = -ffp-contract=off -fwrapv -fno-math-errno -fno-trapping-math
CPPFLAGS = -Icsrc -DDLC_VERSION='"$(VERSION)"'
CFLAGS   = -std=gnu11 -O2 -g1 -fPIC -fvisibility=hidden -pthread $(FP) $(WARN) $(SAN)
LDFLAGS  = -pthread -Wl,-z,relro,-z,now $(SAN)
LDLIBS   = -ldl -lm

# -- the strips and the microkernels, once for every instruction set; strips.c and micro.c choose --

ISA_avx2   = -mavx2 -mfma -mprfchw
ISA_avx512 = $(ISA_avx2) -mavx512f -mavx512bw -mavx512dq -mavx512vl -mprefer-vector-width=512
ISAS      := $(if $(filter x86_64-%,$(shell $(CC) -dumpmachine)),sse2 avx2 avx512,neon)

# -- libtcc: an archive, position independent or not, is made one object; else a shared library -

# The object exports the API alone.  The data symbols of libc, which Debian's archive reaches in a way
# that a shared object cannot have, become variables of jit_tcc.c; so do exit (libtcc must not end
# the process), __assert_fail, mprotect (pages are never writable and executable at once) and what allocates.
# What it writes to gets sections with names that C can say, so that it can be set back to what it was.
TCC_API  = new delete set_error_func set_options set_output_type add_symbol compile_string relocate \
           get_symbol
TCC_OWN  = stdin stdout stderr environ exit __assert_fail mprotect malloc calloc realloc free
TCC_LEND = tcc_memory_begin tcc_memory_end tcc_memory_is_its_own tcc_memory_said
TCC_DATA = .data=dlc_tcc_data .data.rel=dlc_tcc_data .data.rel.local=dlc_tcc_data .bss=dlc_tcc_bss
library  = $(filter /%,$(shell $(CC) -print-file-name=$(1)))
ifneq ($(call library,libtcc.a),)
TCC_OBJ  := $(B)/libtcc.o
TCC_HOST := $(B)/codegen/jit/tcc_memory.o
TCC_LIB   = $(dir $(OUT))libdlctcc.so
CPPFLAGS += -DDLC_TCC_ARCHIVE
else ifneq ($(call library,libtcc.so),)
LDLIBS   += -ltcc
else
$(error libtcc is missing: install it (Debian and Ubuntu: apt-get install libtcc-dev))
endif

# -- the text at the head of every unit for the C compiler, as a string: prelude.h says in which order

PRELUDE := $(addprefix csrc/ir/math/,prelude.h prelude_poly.h prelude_f64.h prelude_f64_trig.h \
           prelude_f64_special.h prelude_f32.h prelude_f32_special.h) \
           $(addprefix csrc/codegen/emit/,prelude_reduce.h prelude_transpose.h prelude_scan.h)

# The same for units in portable C: the preprocessor's result, of which a unit takes what it uses.
PORTABLE := csrc/codegen/emit/c/prelude_c.h $(filter-out %_transpose.h %_scan.h,$(PRELUDE))

# -- the folders; digest.py says which of them decide machine code, so that the key of a kernel covers them

folders  = $(addprefix csrc/,$(1) $(addprefix $(1)/,$(2)))
IR      := $(call folders,ir,contraction dim text build verify math eval)
NOTATION := csrc/ir/notation
FUSION  := $(call folders,fusion,partition channels writes frozen digits)
EMIT_OF := $(patsubst csrc/codegen/%/,%,$(wildcard csrc/codegen/emit/*/))
CODEGEN := $(call folders,codegen,loops builder lower phases tile schedule schedule/decode schedule/nest schedule/tiles emit $(EMIT_OF) strips micro jit compile plan tune export process)
SOURCES := $(sort $(foreach folder,$(IR) $(CODEGEN),$(wildcard $(addprefix $(folder)/,*.[ch] *.def *.inc))))

# -- Python, asked each time: a build of pip has NumPy in a folder of its own, gone the next time ----

ifneq ($(filter ext inject broken check analyse,$(MAKECMDGOALS)),)
include $(B)/python.mk
endif
OUT     ?= dlc/_C$(EXT_SUFFIX)
.PHONY: always
$(B)/python.mk: always
	@mkdir -p $(@D)
	@new=$$($(PYTHON) -c 'import numpy, sysconfig as s; \
	print("EXT_SUFFIX =", s.get_config_var("EXT_SUFFIX")); \
	print("PY_INCLUDES = -isystem", s.get_path("include"), "-isystem", numpy.get_include())') || exit 1; \
	echo "$$new" | cmp -s - $@ || { echo "$$new" >$@.$$$$ && mv $@.$$$$ $@; }

# -- objects ------------------------------------------------------------------------------------

objects  = $(patsubst csrc/%.c,$(B)/%.o,$(1))
TEXTS   := $(B)/prelude_text.o $(B)/portable_text.o $(B)/runtime_text.o $(B)/example_text.o $(B)/sha256_text.o \
           $(B)/module_text.o $(B)/page_text.o $(B)/products_text.o $(B)/sources_text.o
CORE    := $(call objects,$(wildcard $(addsuffix /*.c,$(IR) $(NOTATION) $(FUSION) $(CODEGEN)))) $(TEXTS)
CORE    := $(filter-out %/strips_isa.o %/micro_isa.o,$(CORE)) $(ISAS:%=$(B)/codegen/strips/strips_%.isa.o) \
           $(ISAS:%=$(B)/codegen/micro/micro_%.isa.o) $(B)/codegen/plan/eval_map_fused.isa.o
CAPTURE := $(call objects,$(wildcard $(addsuffix /*.c,$(call folders,capture,walk joint aten aten/product aten/special aten/narrow torch jit artifact arrays onnx onnx_out))))
OPT     := $(B)/dlc_opt.o
TESTS   := $(patsubst tests/%.c,$(B)/tests/%.o,$(wildcard tests/jit/*.c))
EMIT    := $(B)/tests/emit/run_emit.o $(B)/tests/emit/portable.o
REPLAY  := $(B)/tests/replay/main.o
THREADS := $(B)/tests/threads/main.o
BROKEN  := $(patsubst tests/%.c,$(B)/tests/%.o,$(wildcard tests/passes/broken*.c))
INJECT  := $(B)/tests/alloc/inject.o
FUZZ    := $(patsubst tests/%.c,$(B)/tests/%.o,$(wildcard tests/fuzz/*.c)) $(B)/tests/fuzz/native.o \
           $(B)/tests/emit/portable.o
ALL     := $(CORE) $(CAPTURE) $(OPT) $(TESTS) $(EMIT) $(REPLAY) $(THREADS) $(BROKEN) $(INJECT) $(FUZZ)

.PHONY: ext libtcc inject broken sanitized programs check analyse
BROKEN_EXT := $(BIN)/broken/site/dlc/_C$(EXT_SUFFIX)
.DELETE_ON_ERROR:
ext: $(OUT); @:
libtcc: $(TCC_LIB); @:
programs: $(BIN)/dlc-opt $(BIN)/test-jit $(BIN)/test-emit $(BIN)/test-fuzz $(BIN)/test-replay $(BIN)/test-threads \
          $(BIN)/broken-emit $(BIN)/broken-replay; @:
check: $(ALL)
# By gcc's static analyser; the routines of the strips are generated from the tables that the others use, and take it long.
analyse: $(filter-out %.isa.o $(TEXTS),$(CORE)) $(CAPTURE) $(OPT); @:
analyse: CFLAGS += -fanalyzer -Werror
# What it finds there was read, and is not so: a chunk hangs on its list by a pointer to a pointer, and what is made
# half is freed by who asked for it (leak); an operand that the op's arity promises, an array that cx_alloc has made
# because it is not empty, a sum over the places of a window, which has one (null); arrays and structures that a function
# fills whenever it says true, a stack whose operands the code puts there before their operator, and the axes of a window,
# of which there are MAX_AXES at most (uninitialized).
unfounded = $(foreach file,$(2),$(eval $(B)/$(file).o: CFLAGS += -Wno-analyzer-$(1)))
ifneq ($(filter analyse,$(MAKECMDGOALS)),)
$(call unfounded,malloc-leak,ir/cx codegen/jit/tcc_memory codegen/tune/tune_time)
$(call unfounded,null-dereference,ir/build/build ir/build/build_again ir/text/parse ir/eval/eval_node fusion/canonicalise \
    codegen/jit/cc_job capture/aten/aten_join capture/aten/product/aten_convolve)
$(call unfounded,use-of-uninitialized-value,codegen/emit/tcc/emit_tcc_access codegen/emit/tcc/emit_tcc_map \
    codegen/compile/kernel_shape capture/aten/aten_adaptive capture/aten/aten_gather capture/aten/product/aten_convolve \
    ir/notation/notation_build \
    capture/jit/callable capture/jit/jit_guard)
endif

# An object is as old as the start of its compile: what was edited meanwhile is compiled again.
define compile
@mkdir -p $(@D); echo "  cc $(patsubst $(B)/%,%,$@)"; touch $@.begun
@$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP $(1) -c $< -o $@
@touch -r $@.begun $@; rm $@.begun
endef

$(CAPTURE): CPPFLAGS += $(PY_INCLUDES)
$(CAPTURE): $(B)/python.mk
$(B)/%.o: csrc/%.c
	$(compile)
$(B)/tests/%.o: tests/%.c
	$(compile)
# The fuzzer's interpreter fuses multiplications where the strips of this machine do.
$(B)/tests/fuzz/native.o: csrc/ir/eval/eval_map.c
	$(call compile,$(NATIVE))
$(B)/codegen/strips/strips_%.isa.o: csrc/codegen/strips/strips_isa.c
	$(call compile,-O3 -DDLC_ISA=$* $(ISA_$*))
$(B)/codegen/micro/micro_%.isa.o: csrc/codegen/micro/micro_isa.c
	$(call compile,-O3 -DDLC_ISA=$* $(ISA_$*))
# The interpreter's elementwise operations as the strips with fused multiply-adds have them, for check.c.
RENAMED := $(foreach name,eval_map elem_load elem_store elem_cast elem_literal,-D$(name)=$(name)_fused)
$(B)/codegen/plan/eval_map_fused.isa.o: csrc/ir/eval/eval_map.c
	$(call compile,$(ISA_$(filter avx2,$(ISAS))) $(RENAMED))
$(TEXTS): %.o: %.c
	$(compile)
# its name, and what prints it
define text
@mkdir -p $(@D)
@{ echo 'extern const char dlc_$(1)_text[];'; echo 'const char dlc_$(1)_text[] ='; \
   { $(2); } | sed 's/\\/\\\\/g; s/"/\\"/g; s/^/"/; s/$$/\\n"/'; echo ';'; } >$@
endef
$(B)/prelude_text.c: $(PRELUDE) csrc/build.mk
	$(call text,prelude,echo '#define DLC_PASTED'; cat $(PRELUDE))
$(B)/portable_text.c: $(PORTABLE) csrc/build.mk
	$(call text,portable,cat $(PORTABLE) | $(CC) -E -P -x c -DDLC_PASTED -)
# Products in portable C.
$(B)/products_text.c: csrc/codegen/micro/prelude_products.h csrc/build.mk
	$(call text,products,cat $<)
# What exported programs have besides their kernels.
$(B)/%_text.c: csrc/codegen/export/%.h csrc/build.mk
	$(call text,$*,cat $<)
$(B)/module_text.c: csrc/codegen/export/module.mjs csrc/build.mk
	$(call text,module,cat $<)
$(B)/page_text.c: csrc/codegen/export/page.html csrc/build.mk
	$(call text,page,cat $<)
$(B)/sources_text.c: $(SOURCES) csrc/digest.py csrc/build.mk
	@mkdir -p $(@D)
	@digest=$$($(PYTHON) csrc/digest.py) && printf '%s\n' 'extern const char dlc_sources[];' \
	    "const char dlc_sources[] = \"$$digest\";" >$@

$(B)/libtcc.o: $(call library,libtcc.a) csrc/build.mk
	@mkdir -p $(@D)
	@$(CC) -r -nostdlib -Wl,-d -Wl,--whole-archive $< -o $@
	@$(OBJCOPY) $(foreach name,$(TCC_OWN),--redefine-sym $(name)=dlc_tcc_$(name)) $(TCC_DATA:%=--rename-section %) \
	    $(TCC_API:%=--keep-global-symbol=tcc_%) $@

$(ALL): csrc/build.mk pyproject.toml
-include $(ALL:.o=.d)

# -- links --------------------------------------------------------------------------------------

link     = @mkdir -p $(@D); echo "  ld $@"; $(CC) $(LDFLAGS) -o $@ $(filter %.o,$^) $(LDLIBS)

# libtcc with what it may reach, and the extension, which finds it in its own folder.
$(OUT): $(filter-out $(TCC_HOST),$(CORE)) $(CAPTURE) $(TCC_LIB) $(B)/exports.map
	$(link) $(TCC_LIB:%=-Wl,-rpath,'$$ORIGIN' %) -shared -Wl,--version-script=$(B)/exports.map
ifdef TCC_OBJ
$(TCC_LIB): $(TCC_OBJ) $(TCC_HOST) $(B)/libdlctcc.map
	$(link) -shared -Wl,-soname,$(@F) -Wl,-Bsymbolic -Wl,--version-script=$(B)/libdlctcc.map
$(B)/libdlctcc.map: csrc/build.mk
	@mkdir -p $(@D)
	@echo '{ global: $(TCC_API:%=tcc_%;) $(TCC_LEND:%=%;) local: *; };' >$@
endif
$(B)/exports.map: csrc/build.mk
	@mkdir -p $(@D)
	@echo '{ global: PyInit__C; local: *; };' >$@
# The objects of the extension, whose allocations come to inject.c first.
WRAPPED := malloc calloc realloc free aligned_alloc strdup strndup asprintf fopen fdopen fdopendir mmap munmap mprotect \
           pthread_create $(addprefix PyMem_,Malloc Calloc Realloc Free) cx_alloc cx_copy cx_grow \
           dlc_tcc_malloc dlc_tcc_realloc
INJECTED := build/inject/site/dlc/_C$(EXT_SUFFIX)
inject: $(INJECTED); @:
$(INJECTED): $(INJECT) $(CORE) $(CAPTURE) $(TCC_OBJ) csrc/build.mk
	@echo '{ global: PyInit__C; dlc_inject*; local: *; };' >$(B)/inject.map
	$(link) -shared -Wl,--version-script=$(B)/inject.map $(WRAPPED:%=-Wl,--wrap=%)
	@ln -sfn $(abspath dlc)/*.py $(abspath dlc)/*/ $(abspath dlc)/operators.txt $(@D)/
$(BIN)/dlc-opt: $(OPT)
$(BIN)/test-jit: $(TESTS)
$(BIN)/test-emit: $(EMIT)
$(BIN)/test-replay: $(REPLAY)
$(BIN)/test-threads: $(THREADS)
$(BIN)/test-threads: LDFLAGS += -rdynamic
$(BIN)/dlc-opt $(BIN)/test-jit $(BIN)/test-emit $(BIN)/test-replay $(BIN)/test-threads: $(CORE) $(TCC_OBJ)
	$(link)
# The fuzzer's plans take the portable C where it says so, and two threads: tests/fuzz/portable.c, threads.c.
FUZZ_CALLS = $(WRAPPED_CALLS:%=-Wl,--wrap=%)
WRAPPED_CALLS := emit_unit jit_cc_submit parallel_for

# A compile under sanitizers takes long: one of 16 parts of the sources has them, the others are objects of PLAIN.
PART    ?= 0
PLAIN   ?= build/obj
ifneq ($(filter sanitized,$(MAKECMDGOALS)),)
FUZZED  := $(FUZZ) $(filter-out %/ir/eval/eval_map.o,$(CORE)) $(TCC_OBJ)
number  := $(shell echo $$(($(PART) % 16)))
chosen  := $(shell printf '%s\n' $(sort $(filter-out %.isa.o %/libtcc.o,$(FUZZED))) | awk 'NR % 16 == $(number)')
sanitized: $(BIN)/test-fuzz-$(number); @:
$(BIN)/test-fuzz-$(number): $(chosen) $(patsubst $(B)/%,$(PLAIN)/%,$(filter-out $(chosen),$(FUZZED)))
	$(link) $(FUZZ_CALLS)
endif
# With bugs on purpose, which have to be found.
WORSE := $(shell sed -n 's/^REWRITE. *\(\w*\),.*/rewrite_\1/p' csrc/codegen/rewrites.def) \
    product_pack tiles_pack group_blocks store_is_idle pass_canonicalise pass_fuse strip_find jit_cc_submit parallel_for \
    memory_plan copy_strided eval_fn_how emit_cc_function emit_tcc_function open_choice
$(BIN)/broken-emit: $(EMIT)
$(BIN)/broken-replay: $(REPLAY)
$(BIN)/broken-emit $(BIN)/broken-replay: $(BROKEN) $(CORE) $(TCC_OBJ)
	$(link) $(WORSE:%=-Wl,--wrap=%)
broken: $(BROKEN_EXT); @:
$(BROKEN_EXT): $(BROKEN) $(CORE) $(CAPTURE) $(TCC_OBJ) $(B)/exports.map
	$(link) -shared -Wl,--version-script=$(B)/exports.map $(WORSE:%=-Wl,--wrap=%)
	@ln -sfn $(abspath dlc)/*.py $(abspath dlc)/*/ $(abspath dlc)/operators.txt $(@D)/
$(BIN)/test-fuzz: $(FUZZ) $(filter-out %/ir/eval/eval_map.o,$(CORE)) $(TCC_OBJ)
	$(link) $(FUZZ_CALLS)
