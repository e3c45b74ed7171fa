/*
 * kafka_loader -- what an unmodified Kafka makes of a partition directory on a
 * simulated disk: the steps of its loader, by the names of the files alone.
 * Every batch has one record here, and offsets are small.
 */
#ifndef MK_SUPPORT_KAFKA_LOADER_H
#define MK_SUPPORT_KAFKA_LOADER_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "include/minikafka_sim.h"

#define KAFKA_FILES_MAX 64
#define KAFKA_BYTES_MAX 8192

typedef struct kafka_file {
    char name[64]; /* Empty: it was deleted. */
    int64_t offset;
    uint8_t bytes[KAFKA_BYTES_MAX];
    size_t size;
} kafka_file;

typedef struct kafka_loader {
    kafka_file files[KAFKA_FILES_MAX];
    size_t count;
    uint64_t offsets; /* One bit for each record that Kafka would serve. */
    bool overlap;     /* Some offset is not behind the one before it. */
    bool bad_index;   /* An entry of an index that leads nowhere. */
} kafka_loader;

static inline bool kafka_ends(const kafka_file *file, const char *suffix)
{
    size_t size = strlen(file->name), end = strlen(suffix);

    return size >= end && strcmp(file->name + size - end, suffix) == 0;
}

static inline kafka_file *kafka_find(kafka_loader *k, int64_t offset,
                                     const char *suffix)
{
    char name[64];

    snprintf(name, sizeof name, "%020" PRId64 "%s", offset, suffix);
    for (size_t i = 0; i < k->count; i++) {
        if (strcmp(k->files[i].name, name) == 0) return &k->files[i];
    }
    return NULL;
}

static inline bool kafka_read(kafka_loader *k, mk_sim_disk *disk,
                              const char *directory)
{
    size_t prefix = strlen(directory);
    mk_sim_paths paths;
    bool good = mk_sim_disk_list(disk, &paths, NULL) == MK_OK;

    for (size_t i = 0; good && i < paths.count; i++) {
        const char *path = paths.paths[i];
        kafka_file *file = &k->files[k->count];

        if (strncmp(path, directory, prefix) != 0) continue;
        if (path[prefix] != '/' || path[prefix + 1] != '0') continue;
        snprintf(file->name, sizeof file->name, "%s", path + prefix + 1);
        file->offset = strtoll(file->name, NULL, 10);
        good = mk_sim_disk_read(disk, path, 0, file->bytes, KAFKA_BYTES_MAX,
                                &file->size, NULL) == MK_OK &&
               ++k->count < KAFKA_FILES_MAX;
    }
    mk_sim_paths_deinit(&paths);
    return good;
}

/* Return the size of the batch at `position`, or 0. */
static inline size_t kafka_batch(const kafka_file *log, size_t position,
                                 int64_t *offset)
{
    size_t size;

    if (position + 61 > log->size) return 0;
    size = mk_load_u32(log->bytes + position + 8) + 12;
    if (size < 61 || position + size > log->size) return 0;
    *offset = (int64_t)mk_load_u64(log->bytes + position);
    return size;
}

static inline int64_t kafka_next_offset(const kafka_file *log)
{
    int64_t next = log->offset, offset;
    size_t size;

    for (size_t at = 0; (size = kafka_batch(log, at, &offset)) > 0;
         at += size) {
        next = offset + 1;
    }
    return next;
}

/* Steps 1 to 4: which files are left, and under which names. */
static inline void kafka_settle(kafka_loader *k)
{
    int64_t cleaned = INT64_MAX, from = INT64_MAX, to = INT64_MIN;

    for (size_t i = 0; i < k->count; i++) {
        kafka_file *file = &k->files[i];

        if (kafka_ends(file, ".deleted")) file->name[0] = '\0';
        if (kafka_ends(file, ".cleaned") && file->offset < cleaned) {
            cleaned = file->offset;
        }
    }
    for (size_t i = 0; i < k->count; i++) {
        kafka_file *file = &k->files[i];

        if (kafka_ends(file, ".cleaned") ||
            (kafka_ends(file, ".swap") && file->offset >= cleaned)) {
            file->name[0] = '\0';
        }
        if (!kafka_ends(file, ".log.swap")) continue;
        if (file->offset < from) from = file->offset;
        if (kafka_next_offset(file) > to) to = kafka_next_offset(file);
    }
    for (size_t i = 0; i < k->count; i++) {
        kafka_file *file = &k->files[i];

        if (!kafka_ends(file, ".swap") && file->offset >= from &&
            file->offset < to) {
            file->name[0] = '\0';
        }
    }
    for (size_t i = 0; i < k->count; i++) {
        kafka_file *file = &k->files[i];
        kafka_file *old;
        char *suffix = strstr(file->name, ".swap");

        if (suffix == NULL) continue;
        *suffix = '\0';
        old = kafka_find(k, file->offset, file->name + 20);
        if (old != NULL && old != file) old->name[0] = '\0';
    }
}

/* Do all entries of an index lead to where they say? */
static inline void kafka_check_index(kafka_loader *k, const kafka_file *log,
                                     const kafka_file *index, size_t entry_size)
{
    if (index == NULL) return; /* It is rebuilt. */
    for (size_t i = 0; i + entry_size <= index->size; i += entry_size) {
        const uint8_t *entry = index->bytes + i;
        int64_t relative =
            (int32_t)mk_load_u32(entry + (entry_size == 12 ? 8 : 0));
        int64_t offset = -1;

        if (entry_size == 8 &&
            (kafka_batch(log, mk_load_u32(entry + 4), &offset) == 0 ||
             offset != log->offset + relative)) {
            k->bad_index = true;
        }
        if (log->offset + relative >= kafka_next_offset(log)) {
            k->bad_index = true;
        }
    }
}

/* Load all; false if the disk can't be read. Indexes are looked at in segments
 * with bases below `closed`. */
static inline bool kafka_load(kafka_loader *k, mk_sim_disk *disk,
                              const char *directory, int64_t closed)
{
    int64_t next = 0;

    memset(k, 0, sizeof *k);
    if (!kafka_read(k, disk, directory)) return false;
    kafka_settle(k);
    for (int64_t base = 0; base < 64; base++) {
        kafka_file *log = kafka_find(k, base, ".log");
        int64_t offset;
        size_t size;

        if (log == NULL) continue;
        for (size_t at = 0; (size = kafka_batch(log, at, &offset)) > 0;
             at += size) {
            if (offset < next || offset > 63) k->overlap = true;
            k->offsets |= UINT64_C(1) << (offset & 63);
            next = offset + 1;
        }
        if (base >= closed) continue;
        kafka_check_index(k, log, kafka_find(k, base, ".index"), 8);
        kafka_check_index(k, log, kafka_find(k, base, ".timeindex"), 12);
    }
    return true;
}

#endif /* MK_SUPPORT_KAFKA_LOADER_H */
