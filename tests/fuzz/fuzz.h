// What a fuzz target and its driver agree on: libFuzzer's entry point.
//
// Contract: the target takes any bytes, returns 0, and aborts (NEZHA_CHECK) when a promise is
// broken.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
