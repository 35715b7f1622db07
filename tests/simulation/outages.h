// Outages: networks that are silent for a while: on one rail or on all, between two ranks or all of them,
// under work or without any.
//
// Contract: each check builds a world of its own from the seed and answers "" or what is wrong.
#pragma once

#include <cstdint>
#include <string>

namespace nezha::simulation {

// Nobody gets an error before the time that an outage may last is over.
std::string check_short_outage(uint64_t seed);
// Then who vanished is lost, whether there was work with it or not.
std::string check_long_outage(uint64_t seed);
// A job whose processes all stood still for most of an outage has not waited for it so long.
std::string check_slept_outage(uint64_t seed);
// A rank that is stopped while its network carries is lost when it has been silent for its deadline.
std::string check_stopped_rank(uint64_t seed);
// A rank that stands still, seen by one that can neither dial nor ask for longer than an outage may last:
// what this host lacks is no word about a peer.
std::string check_own_want(uint64_t seed);

}  // namespace nezha::simulation
