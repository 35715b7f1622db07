// What every operation takes from Python besides its arrays.
//
// Contract: pure; called with the GIL held. Errors leave as exceptions.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "buffer.h"
#include "nezha/nezha.h"

namespace nezha::python {

using OptionalText = std::optional<std::string>;
// Elements, one entry for each rank: as Python has them (check_counts refuses negative ones), as C does.
using Counts = std::vector<int64_t>;
using Lengths = std::vector<uint64_t>;

inline const char* c_string(const OptionalText& text) { return text ? text->c_str() : nullptr; }

nezha_op parse_op(const char* name);
// 1 where there is none. Only premul_sum has one, and must.
double checked_factor(nezha_op op, std::optional<double> factor);
// The text is borrowed from its argument.
nezha_op_options call_options(std::optional<double> timeout, const OptionalText& algorithm,
                              bool async_op);

// 0 to 2**32 - 1.
uint32_t checked_tag(int64_t tag);

void check_same_dtype(const Buffer& x, const Buffer& out);
// The lengths in the unit in which the library is told of the buffer's elements.
Lengths in_units(const Counts& counts, const Buffer& buffer);
// `what` says why the argument must have so many.
void check_elements(const char* argument, const Buffer& buffer, uint64_t wanted,
                    const std::string& what);
// One for each rank. Returns their sum.
uint64_t check_counts(const char* argument, const Counts& counts, int world_size);

}  // namespace nezha::python
