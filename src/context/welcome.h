// Welcome: what rank 0 says to all ranks once they have joined. Its head is one value of the store, and
// the records of all ranks are as many more as it takes, because a value has a largest size.
//
// Contract: pure, any thread. Whoever can write into the store chose the bytes: a part that is not the
// next one of this welcome is refused.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "context/records.h"

namespace nezha::context {

struct Welcome {
  WelcomeRecord head;
  // As in the parts, by rank; a JoinRecord is without `agreed` where equal to the head's.
  std::vector<WelcomePart::Entry> entries;
  std::string bytes;  // all of it as it was said, which the secret of the connections covers
};

// Without the parts that follow. False when it is no head.
bool begin(std::string_view head, Welcome* welcome);
// "" when it was the next part of a welcome of `ranks` ranks; otherwise what is wrong with it.
std::string add_part(std::string_view bytes, size_t ranks, Welcome* welcome);
// What a rank said, whole. False when it is no JoinRecord.
bool read_joined(const Welcome& welcome, size_t rank, JoinRecord* record);

// The records of all ranks (JoinRecord) and what each is told, by rank, in parts which a store takes.
std::vector<std::string> parts_of(const std::vector<WelcomePart::Entry>& entries,
                                  const std::string& agreed);
// Where a part is in the store; the first is 0.
std::string part_key(const WelcomeRecord& head, size_t part);

}  // namespace nezha::context
