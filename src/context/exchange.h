// Exchange: how ranks find each other by what their program has already, such as MPI.
//
// Rank 0 offers a free port of each address of its host, every rank says which of them it reaches, and
// the first that all of them reach is where rank 0 serves the store. With no secret configured on rank 0
// it sends a fresh one along.
//
// Contract: meet() is collective, and blocks as long as the program's functions do and some seconds more.
// A failure on one rank is one on all, except for a failure of those functions. Any thread.
#pragma once

#include <string>

#include "base/config.h"
#include "base/hidden_text.h"
#include "base/status.h"

namespace nezha::context {

// The program's functions return 0, or another number where they fail.
struct Exchange {
  int rank = 0;
  int world_size = 1;
  void* user = nullptr;
  // Rank 0's bytes, on every rank.
  int (*broadcast)(void* user, void* data, size_t size) = nullptr;
  // `size` bytes of each rank, in the order of ranks, on every rank.
  int (*all_gather)(void* user, const void* mine, void* all, size_t size) = nullptr;
};

struct Exchanged {
  std::string store;  // an address as nezha_init takes it
  HiddenText secret;  // as the option of that name; "": each rank uses what it has configured
};

Result<Exchanged> meet(const Exchange& exchange, const Config& config);

}  // namespace nezha::context
