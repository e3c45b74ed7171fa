rockspec_format = "3.0"
package = "minikafka"
version = "scm-1"

source = {
  url = "git+file://.",
}

description = {
  summary = "An embedded log whose directory is an Apache Kafka partition directory",
  detailed = [[
    Append, read, retention and compaction by key, in a directory that Kafka
    can open. An append that has returned survives the death of the process.
  ]],
  license = "MIT",
  labels = { "log", "kafka", "storage", "database" },
}

supported_platforms = { "linux" }

dependencies = {
  "lua >= 5.4, < 5.5",
}

build = {
  type = "builtin",
  modules = {
    ["minikafka.core"] = {
      sources = {
        -- In the order of csrc/LAYERS.
        "csrc/base/check.c",
        "csrc/base/status.c",
        "csrc/base/heap.c",
        "csrc/codec/crc32c.c",
        "csrc/codec/record.c",
        "csrc/codec/batch.c",
        "csrc/os/thread.c",
        "csrc/os/clock.c",
        "csrc/os/vfs.c",
        "csrc/os/file_posix.c",
        "csrc/os/tail_posix.c",
        "csrc/os/vfs_posix.c",
        "csrc/os/env.c",
        "csrc/os/env_posix.c",
        "csrc/store/names.c",
        "csrc/store/replace_file.c",
        "csrc/store/offset_index.c",
        "csrc/store/time_index.c",
        "csrc/store/state_file.c",
        "csrc/store/swap_manifest.c",
        "csrc/store/file_cache.c",
        "csrc/store/segment.c",
        "csrc/store/segment_scan.c",
        "csrc/log/config.c",
        "csrc/log/log.c",
        "csrc/log/recovery.c",
        "csrc/log/refresh.c",
        "csrc/log/append.c",
        "csrc/log/flush.c",
        "csrc/log/directory_swap.c",
        "csrc/log/life.c",
        "csrc/log/cursor.c",
        "csrc/log/lookup.c",
        "csrc/log/appender.c",
        "csrc/log/remove.c",
        "csrc/clean/key_map.c",
        "csrc/clean/cleanup_result.c",
        "csrc/clean/retention.c",
        "csrc/clean/compactor.c",
        "csrc/api/api_log.c",
        "csrc/api/api_append.c",
        "csrc/api/api_read.c",
        "csrc/api/api_clean.c",
        "csrc/lua/lmk_append.c",
        "csrc/lua/lmk_appender.c",
        "csrc/lua/lmk_args.c",
        "csrc/lua/lmk_call.c",
        "csrc/lua/lmk_clean.c",
        "csrc/lua/lmk_clock.c",
        "csrc/lua/lmk_core.c",
        "csrc/lua/lmk_cursor.c",
        "csrc/lua/lmk_error.c",
        "csrc/lua/lmk_facts.c",
        "csrc/lua/lmk_fetch.c",
        "csrc/lua/lmk_log.c",
        "csrc/lua/lmk_options.c",
        "csrc/lua/lmk_pending.c",
        "csrc/lua/lmk_records.c",
        "csrc/lua/lmk_remove.c",
        "csrc/lua/lmk_type.c",
        "csrc/lua/lmk_view.c",
        "csrc/os/file_sim.c",
        "csrc/os/sim_access.c",
        "csrc/os/sim_change.c",
        "csrc/os/sim_choice.c",
        "csrc/os/sim_content.c",
        "csrc/os/sim_crash.c",
        "csrc/os/sim_disk.c",
        "csrc/os/sim_fault.c",
        "csrc/os/sim_image.c",
        "csrc/os/sim_node.c",
        "csrc/os/sim_seen.c",
        "csrc/os/sim_sync.c",
        "csrc/os/sim_table.c",
        "csrc/os/sim_words.c",
        "csrc/os/vfs_sim.c",
      },
      incdirs = { "csrc" },
      libraries = { "pthread" },
    },
    ["minikafka"] = "lua/minikafka/init.lua",
    ["minikafka.keys"] = "lua/minikafka/keys.lua",
    ["minikafka.random"] = "lua/minikafka/random.lua",
    ["minikafka.view"] = "lua/minikafka/view.lua",
    ["minikafka.workload"] = "lua/minikafka/workload.lua",
  },
}
