/* nezha_init_mpi: for programs that have MPI. Its ranks are the ranks, and only meeting goes through it.
 *
 * Contract: functions of the program that includes this file, so that libnezha needs no MPI. MPI is
 * called in the thread that calls nezha_init_mpi, and not after that. */
#ifndef NEZHA_MPI_H_
#define NEZHA_MPI_H_

#include <mpi.h>

#include "nezha/nezha.h"

static inline int nezha_mpi_broadcast(void* comm, void* data, size_t size) {
  return MPI_Bcast(data, (int)size, MPI_BYTE, 0, *(MPI_Comm*)comm) == MPI_SUCCESS ? 0 : NEZHA_INTERNAL;
}

static inline int nezha_mpi_all_gather(void* comm, const void* mine, void* all, size_t size) {
  const int code = MPI_Allgather(mine, (int)size, MPI_BYTE, all, (int)size, MPI_BYTE, *(MPI_Comm*)comm);
  return code == MPI_SUCCESS ? 0 : NEZHA_INTERNAL;
}

/* Joins the job of all ranks of `comm`. Collective. In `options` (NULL: none) rank, world_size, store,
 * callbacks and exchange are not looked at. */
static inline nezha_code nezha_init_mpi(MPI_Comm comm, const nezha_init_options* options,
                                        nezha_comm_t* out) {
  nezha_exchange exchange = NEZHA_EXCHANGE_INIT;
  nezha_init_options own = NEZHA_INIT_OPTIONS_INIT;
  exchange.user = &comm;
  exchange.broadcast = nezha_mpi_broadcast;
  exchange.all_gather = nezha_mpi_all_gather;
  if (options != NULL) {
    own.job = options->job;
    own.timeout_s = options->timeout_s;
    own.config = options->config;
  }
  own.exchange = &exchange;
  if (MPI_Comm_rank(comm, &own.rank) != MPI_SUCCESS) return NEZHA_INTERNAL;
  if (MPI_Comm_size(comm, &own.world_size) != MPI_SUCCESS) return NEZHA_INTERNAL;
  return nezha_init(&own, out);
}

#endif
