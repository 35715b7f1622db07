// StoreModule: stores that few jobs have, in a module of their own (base/module.h), which open_store()
// opens for an address of theirs.
//
// Contract: one object a process, which lives as long as the process; any thread.
#pragma once

#include <memory>
#include <string_view>

#include "base/status.h"
#include "rendezvous/store.h"

namespace nezha::rendezvous {

class StoreModule {
 public:
  static constexpr char kInterface[] = "stores";

  virtual ~StoreModule() = default;
  // As open_store(), with an address that parse_store_address() took for one of this kind.
  virtual Result<std::unique_ptr<Store>> open(std::string_view address,
                                              const OpenOptions& options) const = 0;
};

}  // namespace nezha::rendezvous
