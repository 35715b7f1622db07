// CheckedStore: puts the job's prefix in front of keys and refuses what no store may be asked.
//
// Contract: as Store; every store that open_store returns is wrapped in one, so the others see only
// keys of 1 to kKeyBytesMax bytes without NUL and values of at most kValueBytesMax.
#pragma once

#include <memory>
#include <string>

#include "rendezvous/store.h"

namespace nezha::rendezvous {

std::unique_ptr<Store> checked(std::unique_ptr<Store> store, std::string prefix);

}  // namespace nezha::rendezvous
