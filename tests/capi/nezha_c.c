/* The header and the calls as a C program sees them. Returns NULL, or what is wrong. */
#include "capi/nezha_c.h"

#include <stddef.h>
#include <string.h>

#include "nezha/aggregator.h"
#include "nezha/nezha.h"

static const char* run_node(const char* key_file) {
  nezha_aggregator_t node = NULL;
  nezha_aggregator_options options;
  int port = 0;
  memset(&options, 0, sizeof(options));
  options.struct_size = sizeof(options);
  options.address = "127.0.0.1";
  options.key_file = key_file;
  options.threads = 1;
  if (nezha_aggregator_start(&options, &node) != NEZHA_OK) return nezha_last_error();
  if (nezha_aggregator_port(node, &port) != NEZHA_OK || port <= 0) return "a node without a port";
  nezha_aggregator_stop(node);
  return NULL;
}

const char* run_c_program(const char* key_file) {
  nezha_comm_t comm = NULL;
  nezha_init_options options = NEZHA_INIT_OPTIONS_INIT;
  options.world_size = 1;
  options.store = "hash://c-program";
  options.config = "log_level=error";
  if (nezha_init(&options, &comm) != NEZHA_OK) return nezha_last_error();
  float values[3] = {1, 2, 3};
  float sums[3] = {0, 0, 0};
  nezha_work_t work = NULL;
  int done = 0;
  nezha_op_options call = NEZHA_OP_OPTIONS_INIT;
  if (nezha_all_reduce(comm, values, sums, 3, NEZHA_FLOAT32, NEZHA_SUM, &call, &work) != NEZHA_OK) {
    return nezha_last_error();
  }
  if (nezha_wait(work, 5) != NEZHA_OK) return nezha_last_error();
  if (nezha_test(work, &done) != NEZHA_OK || !done) return "a finished operation is not done";
  nezha_work_free(work);
  if (memcmp(values, sums, sizeof(values)) != 0) return "a world of one changes the values";
  if (nezha_broadcast(comm, values, 3, NEZHA_FLOAT32, 0, NULL, NULL) != NEZHA_OK) {
    return nezha_last_error();
  }
  if (nezha_barrier(comm, NULL, NULL) != NEZHA_OK) return nezha_last_error();
  nezha_destroy(comm);
  return run_node(key_file);
}
