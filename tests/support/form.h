// The two forms of tests that draw their cases at random: the short one of `make test`, and the long one,
// for which tools/run_tests.sh --long sets NEZHA_TEST_FORM=long.
//
// Contract: reads the environment at every call; any thread.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace nezha::testing {

inline uint64_t cases(uint64_t in_short_form, uint64_t in_long_form) {
  const char* const form = std::getenv("NEZHA_TEST_FORM");
  return form != nullptr && std::string_view(form) == "long" ? in_long_form : in_short_form;
}

}  // namespace nezha::testing
