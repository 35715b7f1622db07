// Faults: calls for resources that fail on demand, in this program only.
//
// Contract: linking puts these in place of the system's (CMakeLists: --wrap), and operator new is
// replaced, so the library needs no seam and has none. Threads that called `exempt` never fail. Arming,
// disarming and counts are for one thread while the others run.
#pragma once

#include <string>
#include <string_view>

namespace nezha::testing {

enum class Resource : unsigned char { descriptor, watch, thread, buffer, memory };
inline constexpr int kResources = 5;
std::string_view name_of(Resource resource);

// The calling thread belongs to the test.
void exempt(bool yes);
// Calls from the `first`-th on, from 1, fail, `how_many` of them.
void arm(Resource resource, long first, long how_many = 1);
void disarm();
// Since arm().
long calls(Resource resource);
long failures();
// The calls that led to the first of them, for addr2line.
std::string first_failure();

}  // namespace nezha::testing
