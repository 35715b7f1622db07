#include "call.h"

#include <array>
#include <string_view>

#include "errors.h"

namespace nezha::python {
namespace {

constexpr std::array<std::string_view, 9> kOps = {"sum", "avg",  "prod", "min",       "max",
                                                  "band", "bor", "bxor", "premul_sum"};

}  // namespace

nezha_op parse_op(const char* name) {
  for (size_t i = 0; i < kOps.size(); ++i) {
    if (kOps[i] == name) return static_cast<nezha_op>(i);
  }
  std::string known;
  for (std::string_view op : kOps) known += (known.empty() ? "" : ", ") + std::string(op);
  raise(NEZHA_INVALID_ARGUMENT, "op '" + std::string(name) + "' is unknown: use one of " + known);
}

double checked_factor(nezha_op op, std::optional<double> factor) {
  if (factor.has_value() != (op == NEZHA_PREMUL_SUM)) {
    raise(NEZHA_INVALID_ARGUMENT, factor ? "factor belongs to op='premul_sum' only"
                                         : "op='premul_sum' needs factor=");
  }
  return factor.value_or(1.0);
}

nezha_op_options call_options(std::optional<double> timeout, const OptionalText& algorithm,
                              bool async_op) {
  if (timeout && !(*timeout > 0)) {
    raise(NEZHA_INVALID_ARGUMENT, "timeout must be a positive number of seconds, or None");
  }
  nezha_op_options options{};
  options.struct_size = sizeof(options);
  options.factor = 1.0;
  options.timeout_s = timeout.value_or(0);
  options.algorithm = c_string(algorithm);
  options.will_wait = async_op ? 0 : 1;
  return options;
}

void check_same_dtype(const Buffer& x, const Buffer& out) {
  if (x.is_alike(out)) return;
  raise(NEZHA_INVALID_ARGUMENT, "x and out are of different dtypes: both need the same");
}

uint32_t checked_tag(int64_t tag) {
  if (tag >= 0 && tag <= UINT32_MAX) return static_cast<uint32_t>(tag);
  raise(NEZHA_INVALID_ARGUMENT, "tag " + std::to_string(tag) + ": it must be 0 to " +
                                    std::to_string(UINT32_MAX));
}

Lengths in_units(const Counts& counts, const Buffer& buffer) {
  Lengths scaled(counts.begin(), counts.end());
  for (uint64_t& count : scaled) count *= buffer.unit();
  return scaled;
}

void check_elements(const char* argument, const Buffer& buffer, uint64_t wanted,
                    const std::string& what) {
  if (buffer.count() == wanted) return;
  raise(NEZHA_INVALID_ARGUMENT, std::string(argument) + " has " + std::to_string(buffer.count()) +
                                    " elements instead of " + std::to_string(wanted) + ": " + what);
}

uint64_t check_counts(const char* argument, const Counts& counts, int world_size) {
  if (counts.size() != static_cast<size_t>(world_size)) {
    raise(NEZHA_INVALID_ARGUMENT, std::string(argument) + " has " + std::to_string(counts.size()) +
                                      " entries: it needs one for each of the " +
                                      std::to_string(world_size) + " ranks");
  }
  uint64_t total = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] < 0) {
      raise(NEZHA_INVALID_ARGUMENT, std::string(argument) + "[" + std::to_string(i) + "] is " +
                                        std::to_string(counts[i]) + ": it must be 0 or more");
    }
    if (!__builtin_add_overflow(total, counts[i], &total)) continue;
    raise(NEZHA_INVALID_ARGUMENT, std::string(argument) + " add up to more than any memory holds");
  }
  return total;
}

}  // namespace nezha::python
