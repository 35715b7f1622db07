// HashStore: a named table inside this process, for ranks that are threads and for tests.
//
// Contract: as Store. All stores of one name share one table, which is freed with the last of them.
#pragma once

#include <memory>
#include <string>

#include "rendezvous/store.h"

namespace nezha::rendezvous {

std::unique_ptr<Store> open_hash_store(const std::string& name);

}  // namespace nezha::rendezvous
