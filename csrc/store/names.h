/*
 * names -- the grammar of file names in and beside a partition directory.
 *
 * A segment's files are its base offset in 20 digits and `.log`, `.index`,
 * `.timeindex` or `.txnindex`; `.snapshot` files carry an offset too. A second
 * suffix marks a step of Kafka's: `.deleted`, `.cleaned`, `.swap`. Files of
 * our own are `minikafka.<role>`.
 */
#ifndef MK_STORE_NAMES_H
#define MK_STORE_NAMES_H

#include "base/bytes.h"
#include "base/status.h"

#define MK_PATH_MAX 4096

#define MK_NAME_LOCK    "minikafka.lock"
#define MK_NAME_STATE   "minikafka.state"
#define MK_NAME_SWAP    "minikafka.swap"
#define MK_NAME_REWRITE "minikafka.rewrite"
#define MK_NAME_RESERVE "minikafka.reserve"

/* A directory of what a repair took out; a number follows. */
#define MK_NAME_QUARANTINE "minikafka.quarantine."
#define MK_NAME_UNPROVEN   "minikafka.unproven"

/* Kafka's log starts and recovery points of all partitions, in the directory
 * above. */
#define MK_NAME_KAFKA_STARTS "log-start-offset-checkpoint"
#define MK_NAME_KAFKA_POINTS "recovery-point-offset-checkpoint"

/* Kafka's marker, in the directory above, of a clean end of all partitions. */
#define MK_NAME_KAFKA_CLEAN ".kafka_cleanshutdown"

/* Kafka's own, beside the files of segments. */
#define MK_NAME_EPOCHS   "leader-epoch-checkpoint"
#define MK_NAME_METADATA "partition.metadata"

typedef enum mk_file_role {
    MK_ROLE_LOG,
    MK_ROLE_OFFSET_INDEX,
    MK_ROLE_TIME_INDEX,
    MK_ROLE_TXN_INDEX,
    MK_ROLE_SNAPSHOT,
    MK_ROLE_OWN,     /* minikafka.something */
    MK_ROLE_UNKNOWN, /* Anything else, to be left alone. */
} mk_file_role;

typedef enum mk_file_stage {
    MK_STAGE_FINAL,
    MK_STAGE_DELETED,
    MK_STAGE_CLEANED,
    MK_STAGE_SWAP,
} mk_file_stage;

typedef struct mk_file_name {
    mk_file_role role;
    mk_file_stage stage;
    int64_t offset; /* -1 where the name has none. */
} mk_file_name;

/* Take a name apart. Whatever is not exactly of the grammar is UNKNOWN. */
mk_file_name mk_name_parse(const char *name);

/* Write a file's name, of a segment's or a snapshot's, into `out`, which has
 * room for 64 bytes. */
void mk_name_write(char *out, size_t out_size, mk_file_name name);

/* Write `<directory>/<that name>`. Errors: INVALID_ARGUMENT when it does not
 * fit. */
MK_NODISCARD mk_status mk_name_file(char *out, size_t out_size,
                                    const char *directory, mk_file_name name,
                                    mk_error *err);

/* Write `<directory>/<20 digits><suffix of the role>` into `out`.
 * Errors: INVALID_ARGUMENT when it does not fit, or the offset is negative. */
MK_NODISCARD mk_status mk_name_segment_file(char *out, size_t out_size,
                                            const char *directory,
                                            int64_t base_offset,
                                            mk_file_role role, mk_error *err);

/* Write `<directory>/<name>`. */
MK_NODISCARD mk_status mk_name_join(char *out, size_t out_size,
                                    const char *directory, const char *name,
                                    mk_error *err);

/* Write the directory that `path` stands in; "/" for a name below the root. */
MK_NODISCARD mk_status mk_name_parent(char *out, size_t out_size,
                                      const char *path, mk_error *err);

/* Return the last name of an absolute path. */
const char *mk_name_last(const char *path);

/* The siblings of a directory that is being swapped or copied. */
typedef enum mk_sibling {
    MK_SIBLING_NEW,  /* What is being built; after an exchange, the old tree. */
    MK_SIBLING_OLD,  /* The old tree, where two renames make the swap. */
    MK_SIBLING_COPY, /* A copy that is not complete; `directory` is its name
                        once it is. */
} mk_sibling;

/*
 * Write the path of a sibling: `minikafka.new.<name>`, `minikafka.old.<name>`
 * or `minikafka.copy.<name>` in the same parent. For a partition `orders-0`
 * that is a name of the form `<topic>-<partition>` again, so that a Kafka
 * broker which starts on the parent reads it as a partition of a topic that it
 * does not know. A name too long for the file system is cut and given a hash.
 */
MK_NODISCARD mk_status mk_name_sibling(char *out, size_t out_size,
                                       const char *directory,
                                       mk_sibling sibling, mk_error *err);

#endif /* MK_STORE_NAMES_H */
