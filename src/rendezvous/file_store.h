// FileStore: one file a key, in a directory that every rank sees.
//
// Contract: as Store. A value appears whole or not at all (written aside, then renamed or linked),
// also over NFS. Files are readable by their owner only, and the directory belongs to this user or to
// root, and others cannot write to it: `invalid_argument` when it is not so. Opening the store removes
// what was written there more than a day ago.
#pragma once

#include <memory>
#include <string>

#include "rendezvous/store.h"

namespace nezha::rendezvous {

Result<std::unique_ptr<Store>> open_file_store(const std::string& directory);

}  // namespace nezha::rendezvous
