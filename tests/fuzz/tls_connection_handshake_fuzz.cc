// The same as connection_handshake_fuzz.cc on an encrypted rail. A target of its own: each input takes
// a key exchange.
#define NEZHA_FUZZ_ENCRYPTED 1
#include "fuzz/connection_handshake_fuzz.cc"
