// The same as trial_fuzz.cc on an encrypted rail. A target of its own: each input takes a key exchange.
#define NEZHA_FUZZ_ENCRYPTED 1
#include "fuzz/trial_fuzz.cc"
