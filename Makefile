# minikafka -- how to build, test and install it.
#
#   make              build/release/minikafka/core.so and libminikafka.a
#   make test         everything that must hold: C tests and specs
#   make demo         build, then run the examples on real files
#   make help         all targets
#
# VARIANT=debug, asan or tsan builds beside the release, in its own directory.
# V=1 shows commands; WERROR=1 makes every warning an error.

VARIANT ?= release
BUILD   := build/$(VARIANT)
OBJ     := $(BUILD)/obj
JOBS    ?= 2
Q       := $(if $(V),,@)

MAKEFLAGS += --no-print-directory
ifeq ($(MAKELEVEL),0)
MAKEFLAGS += -j$(JOBS)
endif

# ---- Compiler ----

WARN := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion \
        -Wundef -Wwrite-strings -Wcast-qual -Wformat=2 -Wvla \
        -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition \
        $(if $(WERROR),-Werror)

CFLAGS_release := -O2 -g
CFLAGS_debug   := -O0 -g -DMK_CHECK_INVARIANTS
CFLAGS_asan    := -O1 -g -fno-omit-frame-pointer -DMK_CHECK_INVARIANTS \
                  -fsanitize=address,undefined -fno-sanitize-recover=all
CFLAGS_tsan    := -O1 -g -fsanitize=thread
CFLAGS ?= $(CFLAGS_$(VARIANT))

ALL_CFLAGS := -std=c11 -fPIC -fvisibility=hidden -pthread $(WARN) -Icsrc \
              $(CFLAGS)
ALL_LDFLAGS := -pthread $(CFLAGS) $(LDFLAGS)

# ---- Lua ----

LUA    ?= lua5.4
BUSTED ?= $(LUA) /usr/bin/busted
LUA_PC := $(firstword $(foreach name,lua5.4 lua-5.4 lua54, \
          $(shell pkg-config --exists $(name) 2>/dev/null && echo $(name))))
ifneq ($(LUA_PC),)
LUA_INCDIR ?= $(patsubst -I%,%,$(filter -I%, \
              $(shell pkg-config --cflags-only-I $(LUA_PC))))
LUA_LIBS   ?= $(shell pkg-config --libs $(LUA_PC))
else
LUA_INCDIR ?= $(firstword $(patsubst %/lua.h,%,$(wildcard \
              /usr/include/lua5.4/lua.h /usr/local/include/lua5.4/lua.h \
              /usr/include/lua.h /usr/local/include/lua.h)))
LUA_LIBS   ?= -llua5.4
endif
LUA_CFLAGS := $(if $(LUA_INCDIR),-I$(LUA_INCDIR))

# What Lua needs to find this checkout's build, and nothing installed before it.
LUA_ENV := MINIKAFKA_LUA="$(LUA)" CC="$(CC)" MINIKAFKA_CFLAGS="$(CFLAGS)" \
           MINIKAFKA_BUILD="$(CURDIR)/$(BUILD)" \
           LUA_PATH_5_4="$(CURDIR)/lua/?.lua;$(CURDIR)/lua/?/init.lua;;" \
           LUA_CPATH_5_4="$(CURDIR)/$(BUILD)/?.so;;"

# An instrumented module in an interpreter that is not. The interpreter frees
# nothing at exit, so leaks are looked for in the C tests only.
runtime = $(shell $(CC) -print-file-name=$(1).so)
ifeq ($(VARIANT),asan)
LUA_ENV += ASAN_OPTIONS=detect_leaks=0 \
           LD_PRELOAD="$(call runtime,libasan) $(call runtime,libubsan)"
else ifeq ($(VARIANT),tsan)
LUA_ENV += LD_PRELOAD="$(call runtime,libtsan)"
endif

# ---- Files ----

LIB_SRC   := $(filter-out csrc/lua/%,$(wildcard csrc/*/*.c))
LUA_SRC   := $(wildcard csrc/lua/*.c)
TEST_SRC  := $(wildcard spec/c/test_*.c)
HELP_SRC  := $(wildcard spec/c/support/*.c)
HOST_SRC  := $(wildcard spec/c/host_*.c)
BENCH_SRC := $(wildcard bench/*.c)
ALL_SRC   := $(LIB_SRC) $(LUA_SRC) $(TEST_SRC) $(HELP_SRC) $(HOST_SRC) \
             $(BENCH_SRC) spec/c/explore.c
C_FILES   := $(wildcard csrc/*/*.[ch] spec/c/*.[ch] spec/c/*/*.[ch] \
             bench/*.[ch])

objects = $(patsubst %.c,$(OBJ)/%.o,$(1))

LIB   := $(BUILD)/libminikafka.a
CORE  := $(BUILD)/minikafka/core.so
TESTS := $(TEST_SRC:spec/c/%.c=$(BUILD)/spec/%)
HOSTS := $(HOST_SRC:spec/c/%.c=$(BUILD)/spec/%)

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SECONDARY:
# Under sanitizers the sweeps look at fewer states.
ifneq ($(filter asan tsan,$(VARIANT)),)
export MK_CRASH_LIMIT ?= 8
export MK_FAULT_SHARE ?= 19
endif

.PHONY: all lib tests demo test test-c test-lua test-asan test-valgrind \
        test-tsan prerequisites env bench lint format install uninstall clean help

all: $(LIB) $(CORE) ## build the library and the Lua module (the default)

lib: $(LIB) ## build the C library alone; Lua is not needed

tests: $(TESTS) $(HOSTS) ## build the C tests and the specs' helper programs

$(LIB): $(call objects,$(LIB_SRC))
	@mkdir -p $(@D)
	@rm -f $@
	$(if $(V),,@echo "  AR    $@")
	$(Q)$(AR) rcs $@ $^

$(CORE): $(call objects,$(LUA_SRC)) $(LIB)
	@mkdir -p $(@D)
	$(if $(V),,@echo "  LINK  $@")
	$(Q)$(CC) -shared $(ALL_LDFLAGS) -o $@ $(filter %.o,$^) $(LIB) -ldl $(LDLIBS)

$(BUILD)/spec/test_%: $(OBJ)/spec/c/test_%.o $(call objects,$(HELP_SRC)) $(LIB)
	@mkdir -p $(@D)
	$(if $(V),,@echo "  LINK  $@")
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ -lcmocka $(LDLIBS)

# -E: the module that a host loads finds Lua in the host itself.
$(BUILD)/spec/host_%: $(OBJ)/spec/c/host_%.o $(LIB)
	@mkdir -p $(@D)
	$(if $(V),,@echo "  LINK  $@")
	$(Q)$(CC) $(ALL_LDFLAGS) -Wl,-E -o $@ $^ $(LUA_LIBS) -lm -ldl $(LDLIBS)

$(OBJ)/csrc/lua/%.o $(OBJ)/spec/c/host_%.o: ALL_CFLAGS += $(LUA_CFLAGS)
$(OBJ)/spec/c/%.o: ALL_CFLAGS += -Ispec/c

$(OBJ)/%.o: %.c
	@mkdir -p $(@D)
	$(if $(V),,@echo "  CC    $<")
	$(Q)$(CC) $(ALL_CFLAGS) $(CPPFLAGS) -MMD -MP -c -o $@ $<

-include $(patsubst %.o,%.d,$(call objects,$(ALL_SRC)))

# ---- Tests ----

test: prerequisites ## the C tests and the specs (the tidy spec is one of them)
	@$(MAKE) test-c
	@$(MAKE) test-lua

# Each test program is a target of its own, so that they run side by side.
test-c: $(TESTS) ## the C tests
	@$(MAKE) -k run-tests-c
	@echo "test-c: $(words $(TESTS)) programs passed ($(VARIANT))"

.PHONY: run-tests-c
run-tests-c: $(TESTS:%=%.run)

$(BUILD)/spec/test_%.run: $(BUILD)/spec/test_%
	$(Q)out=$$(mktemp); $(RUNNER) ./$< >$$out 2>&1; status=$$?; \
	    cat $$out; rm -f $$out; \
	    [ $$status = 0 ] || echo "$<: failed"; exit $$status

SPEC ?= spec

test-lua: all $(HOSTS) $(BUILD)/spec/test_determinism ## the specs; SPEC=spec/some_spec.lua runs a single one
	$(Q)$(LUA_ENV) $(BUSTED) $(BUSTED_FLAGS) $(SPEC)

test-asan: ## all tests under ASan and UBSan, the collector at its most eager
	@$(MAKE) prerequisites EXTRA=valgrind
	@$(MAKE) VARIANT=asan test-c
	@$(MAKE) VARIANT=asan test-lua \
	    BUSTED_FLAGS="$(BUSTED_FLAGS) --helper=spec/support/torture.lua"
	@if command -v valgrind >/dev/null; then $(MAKE) test-valgrind; fi

# Left out is what mounts disks, sets limits on its own process, or needs to
# know where a SIGBUS came from: there it is valgrind that fails; and sweeps,
# which would take it minutes, and which the sanitizers see. A leak is what
# nothing points to any more.
VALGRIND     := valgrind -q --error-exitcode=99 --leak-check=full \
                --errors-for-leak-kinds=definite
VALGRIND_OUT := %_posix.c %_posix_faults.c %_crash.c %_io_faults.c \
                %_directory_swap.c %_recovery.c %_cursor_model.c \
                %_crash_states.c %_vfs_sim.c %_sim_choice.c \
                %_no_memory.c %_fault_model.c %_swap_tree.c %_swap_decision.c \
                %_failing_calls.c %_map_guard.c %_disk_full.c
VALGRIND_SRC := $(filter-out $(VALGRIND_OUT),$(TEST_SRC))

test-valgrind: ## the C tests under valgrind
	@$(MAKE) VARIANT=debug test-c RUNNER="$(VALGRIND)" \
	    TEST_SRC="$(VALGRIND_SRC)"

# Where addresses are dealt at random over too wide a space, the thread sanitizer
# can't start.
THREAD_SRC := $(shell grep -lE 'pthread_create|support/crew.h' $(TEST_SRC))
FIXED_SPACE = $(shell setarch -R true 2>/dev/null && echo setarch -R)

test-tsan: ## the C tests that start threads, under the thread sanitizer
	@$(MAKE) VARIANT=tsan test-c RUNNER="$(FIXED_SPACE)" \
	    TEST_SRC="$(THREAD_SRC)"

# ---- Further than the tests go ----

SECONDS ?= 600

$(BUILD)/spec/explore: $(OBJ)/spec/c/explore.o $(LIB)
	@mkdir -p $(@D)
	$(if $(V),,@echo "  LINK  $@")
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LDLIBS)

.PHONY: explore mutants
explore: $(BUILD)/spec/explore ## crash rows of 1 to 3 operations; SECONDS=n WORKERS=n
	$< $(SECONDS) $(WORKERS)

mutants: $(LIB) ## let changes to the engine be found out by the tests; ONLY="n [m]"
	$(LUA) spec/mutants/run.lua $(ONLY)

# ---- What the tests need ----

# Prints the Debian packages that are missing, by asking for what they bring.
define missing_packages
command -v $(firstword $(CC)) >/dev/null || echo gcc; \
[ -e /usr/include/stdio.h ] || echo libc6-dev; \
command -v $(firstword $(LUA)) >/dev/null || echo lua5.4; \
[ -e "$(or $(LUA_INCDIR),/none)/lua.h" ] || echo liblua5.4-dev; \
[ -e "$(lastword $(BUSTED))" ] || echo lua-busted; \
[ -e /usr/include/cmocka.h ] || [ -e /usr/local/include/cmocka.h ] || \
    echo libcmocka-dev; \
case " $(EXTRA) " in *" valgrind "*) \
    command -v valgrind >/dev/null || echo valgrind;; esac
endef

prerequisites: ## install what the tests need, where apt-get may be used
	@missing=$$($(missing_packages)); missing=$$(echo $$missing); \
	[ -n "$$missing" ] || exit 0; \
	line="apt-get install -y --no-install-recommends $$missing"; \
	if ! command -v apt-get >/dev/null; then \
	    echo "missing (Debian's names): $$missing" >&2; exit 1; \
	elif [ "$$(id -u)" = 0 ]; then as=; \
	elif sudo -n true 2>/dev/null; then as="sudo -n"; \
	else echo "missing packages; type: sudo $$line" >&2; exit 1; fi; \
	echo "installing: $$missing"; \
	$$as env DEBIAN_FRONTEND=noninteractive apt-get update -qq && \
	$$as env DEBIAN_FRONTEND=noninteractive $$line -qq >/dev/null

# ---- Using it ----

demo: prerequisites ## build, then run the examples in a directory that it names
	@$(MAKE) all
	@$(MAKE) run-examples

.PHONY: run-examples
run-examples:
	@where=$$(mktemp -d "$${TMPDIR:-/tmp}/minikafka-demo.XXXXXXXX"); \
	for example in examples/*.lua; do \
	    name=$$(basename $$example .lua); \
	    echo; echo "== $$example"; mkdir "$$where/$$name"; \
	    $(LUA_ENV) $(LUA) $$example "$$where/$$name" || exit 1; \
	done; \
	echo; echo "The files that these wrote are in $$where"

env: ## lines for the shell: eval "$$(make -s env)"
	@$(MAKE) all >&2
	@echo 'export PATH="$(CURDIR)/$(BUILD)/bin:$$PATH"'
	@echo 'export LUA_PATH_5_4="$(CURDIR)/lua/?.lua;$(CURDIR)/lua/?/init.lua;;"'
	@echo 'export LUA_CPATH_5_4="$(CURDIR)/$(BUILD)/?.so;;"'

-include bench/bench.mk

# ---- Style ----

lint: ## luacheck and clang-format, where they are installed
	@if command -v luacheck >/dev/null; then luacheck -q .; \
	    else echo "luacheck is not installed"; fi
	@if command -v clang-format >/dev/null; then \
	    clang-format --dry-run -Werror $(C_FILES); \
	    else echo "clang-format is not installed"; fi

format: ## bring all C files into the house's format
	clang-format -i $(C_FILES)

# ---- Installing ----

PREFIX      ?= /usr/local
INST_LUADIR ?= $(PREFIX)/share/lua/5.4
INST_LIBDIR ?= $(PREFIX)/lib/lua/5.4
INST_CLIB   ?= $(PREFIX)/lib
INST_HEADER ?= $(PREFIX)/include
HEADERS     := $(wildcard csrc/include/*.h)
LUA_FILES   := $(wildcard lua/minikafka/*.lua lua/minikafka/*/*.lua)

install: all ## under PREFIX (/usr/local), or DESTDIR before it
	install -d "$(DESTDIR)$(INST_LIBDIR)/minikafka" \
	    "$(DESTDIR)$(INST_CLIB)" "$(DESTDIR)$(INST_HEADER)"
	install -m 755 $(CORE) "$(DESTDIR)$(INST_LIBDIR)/minikafka/core.so"
	install -m 644 $(LIB) "$(DESTDIR)$(INST_CLIB)"
	install -m 644 $(HEADERS) "$(DESTDIR)$(INST_HEADER)"
	for file in $(LUA_FILES); do install -D -m 644 $$file \
	    "$(DESTDIR)$(INST_LUADIR)/$${file#lua/}" || exit 1; done

uninstall: ## what install has put there
	rm -rf "$(DESTDIR)$(INST_LIBDIR)/minikafka" \
	    "$(DESTDIR)$(INST_LUADIR)/minikafka"
	rm -f "$(DESTDIR)$(INST_CLIB)/libminikafka.a" \
	    $(HEADERS:csrc/include/%="$(DESTDIR)$(INST_HEADER)/%")

clean: ## remove build/
	rm -rf build

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' Makefile bench/bench.mk | \
	    sed 's/\$$\$$/$$/g' | awk -F'|' '{ printf "%-15s %s\n", $$1, $$2 }'
