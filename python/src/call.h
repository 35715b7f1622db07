// What every operation takes from Python besides its arrays.
//
// Contract: pure; called with the GIL held. Errors leave as exceptions; a TypeError names the argument
// that is of a wrong type.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "buffer.h"
#include "errors.h"
#include "nezha/nezha.h"

namespace nezha::python {

using OptionalText = std::optional<std::string>;
// Elements, one entry for each rank: as Python has them (check_counts refuses negative ones), as C does.
using Counts = std::vector<int64_t>;
using Lengths = std::vector<uint64_t>;

inline const char* c_string(const OptionalText& text) { return text ? text->c_str() : nullptr; }

// An argument as Python has it.
using Given = nanobind::handle;

[[noreturn]] void refuse(Given given, const char* name, const char* wanted);

template <class T>
T converted(Given given, const char* name, const char* wanted) {
  T value{};
  if (!nanobind::try_cast(given, value)) refuse(given, name, wanted);
  return value;
}

inline int to_rank(Given given, const char* name) {
  return converted<int>(given, name, "an int, a rank of the communicator");
}
inline std::optional<double> to_timeout(Given given) {
  return converted<std::optional<double>>(given, "timeout", "a number of seconds, or None");
}
// 0 to 2**32 - 2.
uint32_t to_tag(Given given);
// The source and the tag that a receive names; None is any.
int to_source(Given given);
uint32_t to_wanted_tag(Given given);
nezha_op to_op(Given given);
// The library's operator that does `op` on x: on bools sums and maxima are "or", products and minima
// "and"; complex numbers have only the linear ones. Raises where `op` is not defined for x.
nezha_op operator_on(const Buffer& x, nezha_op op);
// 1 where there is none. Only premul_sum has one, and must.
double to_factor(nezha_op op, Given given);

// What all operations take.
struct CallOptions : nezha_op_options {
  CallOptions(Given timeout, Given algorithm, Given async_op);
  CallOptions(const CallOptions&) = delete;
  CallOptions& operator=(const CallOptions&) = delete;

  bool async_op;

 private:
  OptionalText algorithm_text_;
};

void check_same_dtype(const Buffer& x, const Buffer& out);
// The lengths in the unit in which the library is told of the buffer's elements.
Lengths in_units(const Counts& counts, const Buffer& buffer);
// `what` says why the argument must have so many.
void check_elements(const char* argument, const Buffer& buffer, uint64_t wanted,
                    const std::string& what);
// One for each rank, and their sum.
std::pair<Counts, uint64_t> to_counts(Given given, const char* name, int world_size);

}  // namespace nezha::python
