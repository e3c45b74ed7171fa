# The benchmarks; included by the Makefile, which says what the variables are.
#
#   bench        minikafka from C: bench WORKLOAD DIR SCALE REPS
#   bench-limit  the bare machine's loops, called the same way
#   bench_core   the records and the meter for bench/bench.lua
#
# `make bench ARGS="--rounds 9 --workload W4"` hands ARGS to bench/report.lua.

BENCH_COMMON := $(call objects,bench/dataset.c bench/meter.c)
BENCH        := $(BUILD)/bench $(BUILD)/bench-limit $(BUILD)/bench_core.so

BENCH_ENGINE := $(call objects,bench/bench.c bench/engine.c bench/synced.c \
                bench/reopen.c)
BENCH_LIMIT  := $(call objects,bench/limit.c bench/limit_disk.c)

$(BUILD)/bench: $(BENCH_ENGINE) $(BENCH_COMMON) $(LIB)
$(BUILD)/bench-limit: $(BENCH_LIMIT) $(BENCH_COMMON) $(LIB)
$(BUILD)/bench $(BUILD)/bench-limit:
	@mkdir -p $(@D)
	$(if $(V),,@echo "  LINK  $@")
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LDLIBS)

$(BUILD)/bench_core.so: $(OBJ)/bench/lua_bench.o $(BENCH_COMMON)
	@mkdir -p $(@D)
	$(if $(V),,@echo "  LINK  $@")
	$(Q)$(CC) -shared $(ALL_LDFLAGS) -o $@ $^ $(LDLIBS)

# The bare machine may use all that this one has.
$(BENCH_LIMIT): ALL_CFLAGS += $(BENCH_LIMIT_CFLAGS)
$(OBJ)/bench/lua_bench.o: ALL_CFLAGS += $(LUA_CFLAGS)
BENCH_LIMIT_CFLAGS := $(if $(filter x86_64,$(shell uname -m)),-march=native)

bench: all $(BENCH) ## build the benchmarks, run them, print the ratios
	$(Q)$(LUA_ENV) $(LUA) bench/report.lua $(ARGS)
