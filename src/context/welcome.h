// Welcome: what rank 0 says to all ranks once they have joined. Its head is one value of the store.
// The records of all ranks follow in parts, one value each, because the size of a value is limited.
//
// Contract: pure, any thread. The bytes may come from anybody who can write into the store: a part
// that is not the next one of this welcome is refused.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "context/records.h"

namespace nezha::context {

struct Welcome {
  WelcomeRecord head;
  // The entries of all parts, by rank. A JoinRecord has no `agreed` if it equals the head's.
  std::vector<WelcomePart::Entry> entries;
  std::string bytes;  // as rank 0 wrote it; the secret of the connections is made from it
};

// Begins a welcome with its head, without the parts that follow. False when `head` is none.
bool begin(std::string_view head, Welcome* welcome);
// Adds the next part of a welcome of `ranks` ranks. Returns "", or what is wrong with `bytes`.
std::string add_part(std::string_view bytes, size_t ranks, Welcome* welcome);
// Reads a rank's record, with the head's `agreed` if it has none. False when it is no JoinRecord.
bool read_joined(const Welcome& welcome, size_t rank, JoinRecord* record);

// Encodes the entries of all ranks, in their order, as parts that fit into values of the store.
// `agreed` is left out of the records that have the same.
std::vector<std::string> parts_of(const std::vector<WelcomePart::Entry>& entries,
                                  const std::string& agreed);
// The store's key for a part; parts are numbered from 0.
std::string part_key(const WelcomeRecord& head, size_t part);

}  // namespace nezha::context
