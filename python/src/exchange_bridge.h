// ExchangeBridge: an mpi4py communicator, as the two functions of a nezha_exchange.
//
// Contract: created and destroyed with the GIL held; the functions take it themselves. What the
// communicator's Bcast or Allgather raises is kept as the cause of the error that nezha_init then
// reports. Its views of memory end with the call that they were made for.
#pragma once

#include <nanobind/nanobind.h>

#include "nezha/nezha.h"

namespace nezha::python {

class ExchangeBridge {
 public:
  explicit ExchangeBridge(nanobind::object comm);
  ExchangeBridge(const ExchangeBridge&) = delete;
  ExchangeBridge& operator=(const ExchangeBridge&) = delete;

  const nezha_exchange* functions() const { return &functions_; }
  // The exception that was raised, or an invalid handle.
  nanobind::handle error() const { return error_; }

 private:
  static int broadcast(void* user, void* data, size_t size);
  static int all_gather(void* user, const void* mine, void* all, size_t size);
  template <class Call>
  static int guarded(void* user, Call&& call);

  nanobind::object comm_;
  nanobind::object error_;
  nezha_exchange functions_{};
};

}  // namespace nezha::python
