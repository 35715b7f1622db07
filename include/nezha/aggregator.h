/* An aggregation node inside a program: what `nezha aggregator` runs; see docs/aggregation.md.
 *
 * Contract: as nezha.h says of codes, nezha_last_error(), texts and struct_size. A node has threads of
 * its own and serves until it is stopped; several may live in one process. `stats` may be called by any
 * thread, `stop` by one, when no other uses the node any more. After fork() the child has no node:
 * there, `stop` does nothing, and the rest is NEZHA_INVALID_ARGUMENT. */
#ifndef NEZHA_AGGREGATOR_H_
#define NEZHA_AGGREGATOR_H_

#include "nezha/nezha.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nezha_aggregator* nezha_aggregator_t;

typedef struct nezha_aggregator_options {
  size_t struct_size;
  const char* address;   /* numeric, of this host; NULL: 0.0.0.0, every IPv4 address */
  int port;              /* 0: any that is free */
  const char* device;    /* only through this one; NULL: any */
  const char* key_file;  /* with the nodes' own key, as security.md has it; needed */
  int threads;           /* on which jobs are spread; <= 0: one for each processor */
  uint32_t jobs_max;     /* 0: 64 */
  uint32_t groups_max;   /* communicators of one job; 0: 64 */
  uint64_t bytes_max;    /* of memory for one job; 0: 2 GiB */
  uint64_t total_max;    /* for all jobs together; 0: 8 GiB */
  const char* topology;  /* JSON: all nodes of the cluster; NULL: this one alone, for everybody */
  const char* name;      /* which of them this one is */
} nezha_aggregator_options;

/* Returns when the node can be dialled. NEZHA_INVALID_ARGUMENT: address, device, port, key file or
 * topology;
 * NEZHA_EXHAUSTED: the port is taken, or descriptors, memory or threads ran out; NEZHA_UNSUPPORTED:
 * libnezha_aggregation.so, which has the nodes, is not installed beside this library. */
NEZHA_API nezha_code nezha_aggregator_start(const nezha_aggregator_options* options,
                                            nezha_aggregator_t* aggregator);
NEZHA_API nezha_code nezha_aggregator_port(nezha_aggregator_t aggregator, int* port);
/* JSON: the counters of the port, and each job with its ranks, groups, operations and bytes. */
NEZHA_API nezha_code nezha_aggregator_stats(nezha_aggregator_t aggregator, char* text, size_t size,
                                            size_t* needed);
/* Says goodbye to every rank, which goes on without the node. NULL is allowed. */
NEZHA_API void nezha_aggregator_stop(nezha_aggregator_t aggregator);

#ifdef __cplusplus
}
#endif

#endif /* NEZHA_AGGREGATOR_H_ */
