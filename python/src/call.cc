#include "call.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <string_view>

namespace nb = nanobind;

namespace nezha::python {
namespace {

constexpr std::array<std::string_view, 9> kOps = {"sum", "avg",  "prod", "min",       "max",
                                                  "band", "bor", "bxor", "premul_sum"};

std::string known_ops() {
  std::string known;
  for (std::string_view op : kOps) known += (known.empty() ? "" : ", ") + std::string(op);
  return known;
}

}  // namespace

void refuse(Given given, const char* name, const char* wanted) {
  constexpr Py_ssize_t kShown = 80;
  nb::object shown = nb::repr(given);
  shown = nb::steal(PyUnicode_Substring(shown.ptr(), 0, kShown));
  throw nb::type_error((std::string(name) + " is " + nb::cast<std::string>(shown) + ": it must be " +
                        wanted).c_str());
}

nezha_op to_op(Given given) {
  Py_ssize_t length = 0;
  const bool is_text = PyUnicode_Check(given.ptr());
  const char* const text = is_text ? PyUnicode_AsUTF8AndSize(given.ptr(), &length) : nullptr;
  if (text == nullptr) {
    PyErr_Clear();  // a str that no UTF-8 can say
    refuse(given, "op", ("a str, one of " + known_ops()).c_str());
  }
  const std::string_view name(text, static_cast<size_t>(length));
  for (size_t i = 0; i < kOps.size(); ++i) {
    if (kOps[i] == name) return static_cast<nezha_op>(i);
  }
  raise(NEZHA_INVALID_ARGUMENT, "op '" + std::string(name) + "' is unknown: use one of " + known_ops());
}

nezha_op operator_on(const Buffer& x, nezha_op op) {
  if (x.foreign() == nullptr) return op;
  const bool is_bool = *x.foreign() == "bool";
  const bool is_linear = op == NEZHA_SUM || op == NEZHA_AVG || op == NEZHA_PREMUL_SUM;
  if (is_bool && (op == NEZHA_SUM || op == NEZHA_MAX || op == NEZHA_BOR)) return NEZHA_BOR;
  if (is_bool && (op == NEZHA_PROD || op == NEZHA_MIN || op == NEZHA_BAND)) return NEZHA_BAND;
  if (is_bool ? op == NEZHA_BXOR : is_linear) return op;
  raise(NEZHA_UNSUPPORTED, "op '" + std::string(kOps[op]) + "' is not defined for " + *x.foreign() +
                               (is_bool ? ": convert the array to a number type"
                                        : ": sum, avg and premul_sum are"));
}

double to_factor(nezha_op op, Given given) {
  const auto factor = converted<std::optional<double>>(given, "factor", "a number, or None");
  if (factor.has_value() != (op == NEZHA_PREMUL_SUM)) {
    raise(NEZHA_INVALID_ARGUMENT, factor ? "factor belongs to op='premul_sum' only"
                                         : "op='premul_sum' needs factor=");
  }
  return factor.value_or(1.0);
}

CallOptions::CallOptions(Given timeout, Given given_algorithm, Given given_async_op)
    : nezha_op_options{}, async_op(converted<bool>(given_async_op, "async_op", "True or False")),
      algorithm_text_(converted<OptionalText>(given_algorithm, "algorithm",
                                              "a str such as 'ring', or None")) {
  const std::optional<double> seconds = to_timeout(timeout);
  if (seconds && !(*seconds > 0)) {
    raise(NEZHA_INVALID_ARGUMENT, "timeout must be a positive number of seconds, or None");
  }
  struct_size = sizeof(nezha_op_options);
  factor = 1.0;
  timeout_s = seconds.value_or(0);
  algorithm = c_string(algorithm_text_);
  will_wait = async_op ? 0 : 1;
}

void check_same_dtype(const Buffer& x, const Buffer& out) {
  if (x.is_alike(out)) return;
  raise(NEZHA_INVALID_ARGUMENT, "x and out are of different dtypes: both need the same");
}

uint32_t to_tag(Given given) {
  const auto tag = converted<int64_t>(given, "tag", "an int");
  if (tag >= 0 && tag < NEZHA_ANY_TAG) return static_cast<uint32_t>(tag);
  raise(NEZHA_INVALID_ARGUMENT, "tag " + std::to_string(tag) + ": it must be 0 to " +
                                    std::to_string(NEZHA_ANY_TAG - 1));
}

int to_source(Given given) {
  const auto source = converted<std::optional<int>>(given, "source", "an int, a rank, or None");
  if (source && *source < 0) {
    raise(NEZHA_INVALID_ARGUMENT, "source is negative: pass a rank, or None for any");
  }
  return source.value_or(NEZHA_ANY_SOURCE);
}

uint32_t to_wanted_tag(Given given) { return given.is_none() ? NEZHA_ANY_TAG : to_tag(given); }

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

std::pair<Counts, uint64_t> to_counts(Given given, const char* argument, int world_size) {
  auto counts = converted<Counts>(given, argument, "a sequence of ints, one for each rank");
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
  return {std::move(counts), total};
}

}  // namespace nezha::python
