// NEZHA_CHECK: a broken invariant of the library itself, on in release builds too.
//
// Contract: never reachable by anything a caller or a peer can send; those get a Status. Prints
// the condition and aborts.
#pragma once

#include <cstdio>
#include <cstdlib>

#define NEZHA_CHECK(condition)                                                              \
  do {                                                                                      \
    if (!(condition)) [[unlikely]] {                                                        \
      std::fprintf(stderr, "nezha: broken invariant: %s at %s:%d\n", #condition, __FILE__,  \
                   __LINE__);                                                               \
      std::abort();                                                                         \
    }                                                                                       \
  } while (false)
