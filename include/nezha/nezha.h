/* Nezha: collective communication over every network of every node at once.
 *
 * The C API. Functions that can fail return a nezha_code; nezha_last_error() then has the sentence for a
 * person, and nezha_last_error_details() what a program can act on (per thread, valid until the
 * thread's next call). Handles are opaque. Structs that may
 * grow begin with `struct_size`, set by the caller to sizeof(the struct).
 *
 * Threads: a communicator may be used by several threads; operations on one communicator take the
 * order in which the calls are made, which must be the same on every rank. Several communicators
 * and several ranks may live in one process. Buffers are borrowed from the call until the operation
 * has completed (blocking call returned, or nezha_wait / nezha_test said so).
 *
 * Buffers after an error: NEZHA_INVALID_ARGUMENT and NEZHA_UNSUPPORTED touched none. After any other code
 * what the operation only reads is as it was, and what it writes is undefined, so an operation in place
 * has lost its input. NEZHA_OK on one rank means the whole result there, whatever the others got. Of a
 * group that failed this holds for every operation in it. docs/failure_model.md has the details.
 */
#ifndef NEZHA_H
#define NEZHA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define NEZHA_API __attribute__((visibility("default")))

/* The version of this header; nezha_version() is the library's. Programs run with every library of the
 * same major version (before 1.0: minor version) that is not older: functions, and fields at the end of
 * structs, are only added. */
#define NEZHA_VERSION_MAJOR 0
#define NEZHA_VERSION_MINOR 2
#define NEZHA_VERSION_PATCH 0

typedef enum nezha_code {
  NEZHA_OK = 0,
  NEZHA_INVALID_ARGUMENT = 1, /* fix the call */
  NEZHA_UNSUPPORTED = 2,      /* choose another dtype, op, algorithm or store */
  NEZHA_TIMED_OUT = 3,        /* retry, or raise the deadline */
  NEZHA_EXHAUSTED = 4,        /* descriptors, memory or threads ran out */
  NEZHA_PEER_LOST = 5,        /* a rank died: nezha_shrink, or restart the group */
  NEZHA_MISMATCH = 6,         /* the ranks' programs disagree */
  NEZHA_ABORTED = 7,          /* somebody called abort */
  NEZHA_INTERNAL = 8          /* report it */
} nezha_code;

/* Types of elements that are combined. What is only moved may be anything: say NEZHA_UINT8 and its
 * bytes. A bool that is 0 or 1 is combined as NEZHA_UINT8 by NEZHA_BOR and NEZHA_BAND, and complex
 * numbers are added up as twice as many of floating point. */
typedef enum nezha_dtype {
  NEZHA_FLOAT64 = 0,
  NEZHA_FLOAT32 = 1,
  NEZHA_FLOAT16 = 2,
  NEZHA_BFLOAT16 = 3,
  NEZHA_INT8 = 4,
  NEZHA_UINT8 = 5,
  NEZHA_INT32 = 6,
  NEZHA_INT64 = 7,
  NEZHA_INT16 = 8,
  NEZHA_UINT16 = 9,
  NEZHA_UINT32 = 10,
  NEZHA_UINT64 = 11,
  NEZHA_FLOAT8_E4M3FN = 12, /* 1 sign, 4 exponent, 3 mantissa; to 448; a sum beyond it is NaN */
  NEZHA_FLOAT8_E5M2 = 13
} nezha_dtype;

typedef enum nezha_op {
  NEZHA_SUM = 0,
  NEZHA_AVG = 1, /* of floating point; does not overflow where the average does not */
  NEZHA_PROD = 2,
  NEZHA_MIN = 3, /* NaN wins */
  NEZHA_MAX = 4, /* NaN wins */
  NEZHA_BAND = 5,
  NEZHA_BOR = 6,
  NEZHA_BXOR = 7,
  NEZHA_PREMUL_SUM = 8 /* every rank's input is multiplied by its own `factor` first */
} nezha_op;

typedef struct nezha_comm* nezha_comm_t;
typedef struct nezha_work* nezha_work_t;

/* The caller's own store; see store semantics in docs/rendezvous.md. Each function returns 0 or a
 * nezha_code. `get` waits up to timeout_s; *size is the capacity of `value` on entry and the length
 * of the value on return. */
typedef struct nezha_store_callbacks {
  size_t struct_size;
  void* user;
  int (*set)(void* user, const char* key, const void* value, size_t size, double timeout_s);
  int (*get)(void* user, const char* key, void* value, size_t* size, double timeout_s);
  int (*set_if_absent)(void* user, const char* key, const void* value, size_t size, void* winner,
                       size_t* winner_size, double timeout_s);
  int (*remove)(void* user, const char* key, double timeout_s);
} nezha_store_callbacks;
#define NEZHA_STORE_CALLBACKS_INIT {sizeof(nezha_store_callbacks), NULL, NULL, NULL, NULL, NULL}

/* How the ranks reach each other before they have Nezha, such as MPI (nezha/mpi.h). Both functions are
 * collective over all ranks of the job and return 0, or on failure a nezha_code. Nezha calls each of them
 * once, with at most 4 KiB, in the thread that calls nezha_init. */
typedef struct nezha_exchange {
  size_t struct_size;
  void* user;
  int (*broadcast)(void* user, void* data, size_t size); /* rank 0's bytes, on every rank */
  int (*all_gather)(void* user, const void* mine, void* all, size_t size); /* `size` bytes of each rank */
} nezha_exchange;
#define NEZHA_EXCHANGE_INIT {sizeof(nezha_exchange), NULL, NULL, NULL}

typedef struct nezha_init_options {
  size_t struct_size;
  int rank;              /* 0 .. world_size-1 */
  int world_size;        /* 1 .. 65535; collectives work on communicators of up to 16384 ranks */
  const char* store;     /* "tcp://host:port", "file:///dir", "redis://host:port/0", "hash://name" */
  const char* job;       /* prefix of the job's keys in the store; NULL: "nezha" */
  const nezha_store_callbacks* callbacks; /* used instead of `store` when not NULL */
  double timeout_s;      /* for the rendezvous and, by default, each operation; <= 0: configured */
  const char* config;    /* "key=value" lines that override environment and file; NULL: none */
  const nezha_exchange* exchange; /* used instead of `store` when not NULL: rank 0 serves the store where
                            all ranks reach it, and without a configured secret makes one */
} nezha_init_options;
#define NEZHA_INIT_OPTIONS_INIT {sizeof(nezha_init_options), 0, 0, NULL, NULL, NULL, 0, NULL, NULL}

/* Per-call options; NULL means defaults. */
typedef struct nezha_op_options {
  size_t struct_size;
  double factor;         /* NEZHA_PREMUL_SUM; 1.0 otherwise */
  double timeout_s;      /* <= 0: the communicator's */
  const char* algorithm; /* NULL or "auto": chosen by cost. Must be equal on all ranks. */
  int will_wait;         /* 1: nezha_wait would follow at once: the call itself waits, for up to 0.1 s.
                            What is over by then has no handle (NULL), and the answer is its outcome. */
} nezha_op_options;
#define NEZHA_OP_OPTIONS_INIT {sizeof(nezha_op_options), 1.0, 0, NULL, 0}

/* Joins the job: meets the other ranks in the store, finds and tests the rails, connects. Collective. */
NEZHA_API nezha_code nezha_init(const nezha_init_options* options, nezha_comm_t* comm);
/* The same, with rank, world_size, store and job as a launcher left them in the environment: `nezha run`,
 * torchrun, srun, the mpirun of Open MPI and MPICH, or RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT by
 * hand. Without any of them it is a world of one. In `options` (NULL: none) rank and world_size are not
 * looked at, and what is set of the rest goes before the environment. NEZHA_INVALID_ARGUMENT names the
 * variable that is missing. */
NEZHA_API nezha_code nezha_init_from_environment(const nezha_init_options* options, nezha_comm_t* comm);
/* Leaves in order. Never blocks longer than the configured linger. NULL is allowed. */
NEZHA_API void nezha_destroy(nezha_comm_t comm);
NEZHA_API nezha_code nezha_rank(nezha_comm_t comm, int* rank);
NEZHA_API nezha_code nezha_world_size(nezha_comm_t comm, int* world_size);

/* A communicator of the ranks that passed the same color >= 0, ordered by (key, rank). Collective over
 * `comm`; a negative color takes part and gets NULL. Connections are shared, not opened again. */
NEZHA_API nezha_code nezha_split(nezha_comm_t comm, int color, int key, nezha_comm_t* out);

/* A communicator of the `count` distinct `ranks` of `comm`, in that order. Collective over those ranks
 * only, and no message is needed: all of them pass the same ranks and `name` (NULL: ""), and create
 * groups of equal ranks and name in the same order. */
NEZHA_API nezha_code nezha_create(nezha_comm_t comm, const int* ranks, int count, const char* name,
                                  nezha_comm_t* out);

/* A communicator of the ranks of `comm` that are left, in their order, after one of them was lost or
 * after any other error. Every rank that lives calls it, also if it saw no error itself; `comm` is over
 * on all of them, and is destroyed as any other. Ranks that die meanwhile are left out; if one dies when
 * some have the new communicator already, that one says NEZHA_PEER_LOST, too, and is shrunk again. In a
 * partitioned network the ranks go on that reach each other, if they are more than half, or half and the
 * lowest, or all that have not ended; the others get NEZHA_PEER_LOST (option quorum). After
 * timeout_s (<= 0: the configured one) NEZHA_TIMED_OUT names the ranks that did not call it; call it
 * again. Some ranks may have the result of an operation that others saw fail: agree on what is done
 * again, from inputs that are whole (examples/recovery.py). */
NEZHA_API nezha_code nezha_shrink(nezha_comm_t comm, double timeout_s, nezha_comm_t* out);

/* out[i] = op over ranks of in[i]. in == out is in place. If `work` is NULL the call blocks, otherwise
 * it returns at once with a handle. Any pointer alignment; count may be 0. */
NEZHA_API nezha_code nezha_all_reduce(nezha_comm_t comm, const void* in, void* out, uint64_t count,
                                      nezha_dtype dtype, nezha_op op,
                                      const nezha_op_options* options, nezha_work_t* work);
/* buffer of `root` -> buffer of everybody. */
NEZHA_API nezha_code nezha_broadcast(nezha_comm_t comm, void* buffer, uint64_t count,
                                     nezha_dtype dtype, int root,
                                     const nezha_op_options* options, nezha_work_t* work);
/* Blocks: rank r's block of a concatenated buffer begins after those of the ranks before it. `count`
 * is the elements of one block; `counts[r]`, one per rank and equal on all of them, those of rank r's.
 * A rank's own block may already be in its place (in or out points to it): then it is in place. */

/* Every rank's block -> everybody: `out` holds world_size blocks. */
NEZHA_API nezha_code nezha_all_gather(nezha_comm_t comm, const void* in, void* out, uint64_t count,
                                      nezha_dtype dtype, const nezha_op_options* options,
                                      nezha_work_t* work);
NEZHA_API nezha_code nezha_all_gather_v(nezha_comm_t comm, const void* in, void* out,
                                        const uint64_t* counts, nezha_dtype dtype,
                                        const nezha_op_options* options, nezha_work_t* work);
/* `in` holds world_size blocks; out = op over ranks of this rank's block. */
NEZHA_API nezha_code nezha_reduce_scatter(nezha_comm_t comm, const void* in, void* out,
                                          uint64_t count, nezha_dtype dtype, nezha_op op,
                                          const nezha_op_options* options, nezha_work_t* work);
NEZHA_API nezha_code nezha_reduce_scatter_v(nezha_comm_t comm, const void* in, void* out,
                                            const uint64_t* counts, nezha_dtype dtype, nezha_op op,
                                            const nezha_op_options* options, nezha_work_t* work);
/* As all_reduce, but only `root` gets the result; the others may pass NULL as `out`. */
NEZHA_API nezha_code nezha_reduce(nezha_comm_t comm, const void* in, void* out, uint64_t count,
                                  nezha_dtype dtype, nezha_op op, int root,
                                  const nezha_op_options* options, nezha_work_t* work);
/* Every rank's block -> `root`, whose `out` holds world_size blocks; the others may pass NULL. */
NEZHA_API nezha_code nezha_gather(nezha_comm_t comm, const void* in, void* out, uint64_t count,
                                  nezha_dtype dtype, int root, const nezha_op_options* options,
                                  nezha_work_t* work);
/* Block r of the `in` of `root` -> rank r; the others may pass NULL as `in`. */
NEZHA_API nezha_code nezha_scatter(nezha_comm_t comm, const void* in, void* out, uint64_t count,
                                   nezha_dtype dtype, int root, const nezha_op_options* options,
                                   nezha_work_t* work);
/* Block r of `in` -> rank r, block r of `out` <- rank r. The buffers must not overlap. In the form
 * with counts, rank a's send_counts[b] must be rank b's receive_counts[a]. */
NEZHA_API nezha_code nezha_all_to_all(nezha_comm_t comm, const void* in, void* out, uint64_t count,
                                      nezha_dtype dtype, const nezha_op_options* options,
                                      nezha_work_t* work);
NEZHA_API nezha_code nezha_all_to_all_v(nezha_comm_t comm, const void* in,
                                        const uint64_t* send_counts, void* out,
                                        const uint64_t* receive_counts, nezha_dtype dtype,
                                        const nezha_op_options* options, nezha_work_t* work);

#define NEZHA_ANY_SOURCE (-1)
#define NEZHA_ANY_TAG 0xFFFFFFFFu

/* One message to one rank, outside the order of the collectives. Messages with the same tag between
 * two ranks are received in the order in which they were sent; both sides name the same count and
 * dtype. A send may complete before the message is received (short messages) or only then. A tag is
 * anything below NEZHA_ANY_TAG. */
NEZHA_API nezha_code nezha_send(nezha_comm_t comm, const void* buffer, uint64_t count,
                                nezha_dtype dtype, int destination, uint32_t tag,
                                const nezha_op_options* options, nezha_work_t* work);
/* `source` may be NEZHA_ANY_SOURCE and `tag` NEZHA_ANY_TAG: the first message that arrived is received;
 * nezha_work_source and nezha_work_tag say which it was. */
NEZHA_API nezha_code nezha_recv(nezha_comm_t comm, void* buffer, uint64_t count, nezha_dtype dtype,
                                int source, uint32_t tag, const nezha_op_options* options,
                                nezha_work_t* work);

/* What a message says of itself before it is received. */
typedef struct nezha_message {
  size_t struct_size;
  int source;
  uint32_t tag;
  uint64_t count;
  nezha_dtype dtype;
} nezha_message;
#define NEZHA_MESSAGE_INIT {sizeof(nezha_message), NEZHA_ANY_SOURCE, NEZHA_ANY_TAG, 0, NEZHA_UINT8}
/* *found = 1 when a message waits that nezha_recv would take with this source and tag, either of which
 * may be ANY; `message` then has what that receive must name. Never waits, and receives nothing: when
 * several threads receive, another one may take the message first. */
NEZHA_API nezha_code nezha_probe(nezha_comm_t comm, int source, uint32_t tag, int* found,
                                 nezha_message* message);

/* Returns when every rank has entered. */
NEZHA_API nezha_code nezha_barrier(nezha_comm_t comm, const nezha_op_options* options,
                                   nezha_work_t* work);

/* Operations between begin and end are started together by end: short ones overlap instead of waiting
 * for each other. Inside, pass no `work` and do not wait; end blocks, or gives one handle for all, which
 * is complete when all are. The first operation that failed speaks for the group. Buffers are borrowed
 * until then, counts during the call only. The options of end are for operations that have no deadline
 * of their own. Per thread and communicator; begin twice, or end without begin, is an error. */
NEZHA_API nezha_code nezha_group_begin(nezha_comm_t comm);
NEZHA_API nezha_code nezha_group_end(nezha_comm_t comm, const nezha_op_options* options,
                                     nezha_work_t* work);
/* Forgets what was called since begin; nothing is started. */
NEZHA_API nezha_code nezha_group_cancel(nezha_comm_t comm);

/* The rank whose message a completed nezha_recv took; -1 for any other operation. */
NEZHA_API nezha_code nezha_work_source(nezha_work_t work, int* source);
/* The tag of that message; 0 for any other operation. */
NEZHA_API nezha_code nezha_work_tag(nezha_work_t work, uint32_t* tag);
/* *done = 1 when complete; the operation's own outcome is the return value then. */
NEZHA_API nezha_code nezha_test(nezha_work_t work, int* done);
/* timeout_s <= 0: the operation's deadline. A wait that times out leaves the operation running, and the
 * error's details say "goes_on": true; the operation's own deadline fails it. */
NEZHA_API nezha_code nezha_wait(nezha_work_t work, double timeout_s);
/* Fails the operation and its communicator on every rank with NEZHA_ABORTED. */
NEZHA_API nezha_code nezha_abort(nezha_work_t work);
NEZHA_API nezha_code nezha_comm_abort(nezha_comm_t comm);
/* Waits for an unfinished operation first. NULL is allowed. */
NEZHA_API void nezha_work_free(nezha_work_t work);

/* JSON texts for people and tools; written into `text` (capacity `size`, always terminated). Returns
 * NEZHA_EXHAUSTED with *needed set when it does not fit. `what` is one of
 *   "rails"   rails of this rank: name, address, peers, rate, bytes sent and received, state,
 *             and the devices left out with their reasons, for every rank
 *   "table"   what the balancing policy has learned
 *   "config"  effective configuration and where each value came from
 *   "stats"   operations, frames, acknowledgements, retransmissions, system calls
 *   "flight"  what this rank did last: operations, rail events, failures; see docs/debugging.md
 *   "stragglers"  who has not come to the oldest operation that is open, what each rank did last,
 *             and who waits for whom; at most a second old. Also while another thread waits */
NEZHA_API nezha_code nezha_describe(nezha_comm_t comm, const char* what, char* text, size_t size,
                                    size_t* needed);
/* Restores what "table" printed. NEZHA_INVALID_ARGUMENT for another text, and where the policy keeps no
 * table ("table" then prints {}). */
NEZHA_API nezha_code nezha_load_table(nezha_comm_t comm, const char* json);

/* Writes "flight" to the file `path` (NULL: where flight_dump says, else the working directory) and its
 * name into `text`, as nezha_describe does (NULL and 0: nowhere). `nezha flight` reads the files of all
 * ranks. */
NEZHA_API nezha_code nezha_dump_flight(nezha_comm_t comm, const char* path, char* text, size_t size,
                                       size_t* needed);

/* Without a communicator. `request` and the answer are JSON. What stands from "explain" to "reduction" is
 * answered by libnezha_queries.so, which goes beside this library: NEZHA_UNSUPPORTED where it is missing.
 *   "devices"  this host's devices as Nezha sees them; request {"filter": "eth"}. "unbound" says why
 *              sockets cannot be bound to a usable one, and what follows; "" where they can
 *   "explain"  the plan of an operation; request {"collective", "bytes", "dtype", "world_size",
 *              "rails", "rate_gbps" (of each rail), "latency_us", "reduce_gb_per_s" (1e9 bytes),
 *              "algorithm", "schedule": true|false, "rank", "root", "host_of": [of each rank, the
 *              number of its host], "shm": true where ranks of a host share memory}; "print": true adds
 *              the schedules of all ranks as algorithm_file takes them, and "algorithm_text" is such a
 *              file's content, by which the operation goes
 *   "divide"   how the balancer would divide an operation's bytes among rails; request {"bytes",
 *              "rails": [{"rate_gbps", "latency_us"}], "split_cost_us", "rate_lost": [[...]]}
 *   "schedule"  the plan of an operation; request as of "explain", with "root", and "steps": true for
 *              what every rank does (up to 256 ranks)
 *   "algorithm"  proves the schedules of an algorithm file; request {"text": its content}. "waits": an
 *              addition may wait for another message; "pair_load": how often a rank sends another the
 *              same part, at most
 *   "bind"     which rail a transfer of a divided operation takes; request {"bytes", "rails":
 *              [{"rate_gbps", "latency_us", "backlog_bytes"}]}; with "weights", one a rail, as policies
 *              with shares divide, after transfers of "before": [bytes]
 *   "learn"    how the next all_reduce is divided after those in "operations", and what was learned;
 *              request {"policy", "bytes", "rails": [{"rate_gbps", "latency_us"}] (as advertised),
 *              "split_cost_us", "rate_lost",
 *              "operations": [{"total_us", "rails": [{"bytes", "time_us", "busy_us"}]}]}
 *   "cut"      whether the next all_reduce goes over the hosts, through an aggregation node or both, and
 *              the node's part, after the times in "operations"; request {"bytes", "may_cut",
 *              "operations": [{"hosts_us", "node_us"}]} (0: it did not go there)
 *   "reduction"  how fast this host adds, measured for "seconds"; request {"dtype", "bytes" (of a
 *              chunk), "seconds"}
 *   "launch"   which rank a launcher made of a process; request {"environment": {variable: value},
 *              "rank", "world_size" (null, or instead of the environment's), "meet": true for where the
 *              ranks meet}
 *   "host"     "identity": ranks with the same share a host; "origin": where host_id was set, or ""
 *   "authentication"  whether jobs that start here have a secret, and what is wrong with it
 *   "aggregator"  the configured aggregation node: does it answer, which one serves this host, the tree
 *   "job_key"  for launchers: the key of one job, derived from the aggregation nodes' own; request
 *              {"key_file", "job"}: default aggregator_key_file, and a job that has no name
 *   "config"   every configuration field with default, unit, environment name and meaning
 *   "build"    version, commit ("" where it was not built from a checkout), compiler, instruction set,
 *              optional parts */
NEZHA_API nezha_code nezha_query(const char* what, const char* request, char* text, size_t size,
                                 size_t* needed);

/* For a program that has a log of its own: while there is a sink, log lines go to it instead of stderr
 * (and to log_file, where one is named). `level`: 0 error, 1 warn, 2 info, 3 debug, 4 trace; log_level
 * says which are written at all. `rank`: -1 where a line belongs to none. Called by any thread, the
 * library's own included: return at once, and call nothing of the library. NULL: as before. */
typedef void (*nezha_log_sink)(int level, int rank, const char* subsystem, const char* text);
NEZHA_API void nezha_set_log_sink(nezha_log_sink sink);

/* Bytes of one element; 0 for an unknown dtype. */
NEZHA_API size_t nezha_dtype_size(nezha_dtype dtype);
NEZHA_API const char* nezha_code_name(nezha_code code);
NEZHA_API const char* nezha_last_error(void);
/* The last error of this thread as JSON; keys may be added, and version 1 keeps these:
 *   "version"  1
 *   "code"     the code's name, such as "peer_lost"
 *   "ranks"    ranks of the communicator that the error is about: lost, waited for, or at odds with each
 *              other; empty where they are not known
 *   "rail"     name of this rank's last rail to a rank that was lost, or null
 *   "operation", "operation_number", "bytes", "communicator"  the operation that failed, or null: its
 *              name, which one of its communicator it was (from 0), its size, the communicator's number
 *   "goes_on"  true: only a wait is over, and the operation goes on */
NEZHA_API const char* nezha_last_error_details(void);
NEZHA_API const char* nezha_version(void);

#ifdef __cplusplus
}
#endif
#endif /* NEZHA_H */
