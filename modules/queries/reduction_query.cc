#include "queries/reduction_query.h"

#include <algorithm>
#include <vector>

#include "base/clock.h"
#include "base/types.h"
#include "reduce/reduce.h"

namespace nezha::queries {
namespace {

// Operands and results lie in more memory than caches hold, as the data of an operation does.
constexpr int64_t kMemoryBytes = 64 << 20;
constexpr double kLongestS = 10;

}  // namespace

Result<std::string> measure_reduction(const JsonValue& request) {
  const std::string name(request.at("dtype").string_or("float32"));
  const auto dtype = dtype_from_name(name);
  if (!dtype || !reduce_supported(*dtype, ReduceOp::sum)) {
    return error(Code::invalid_argument, "dtype '%s' has no sum", name.c_str());
  }
  const int64_t bytes = request.at("bytes").integer_or(256 << 10);
  const double seconds = request.at("seconds").number_or(0.05);
  if (bytes < 4096 || bytes > kMemoryBytes) {
    return error(Code::invalid_argument, "bytes %lld is not in 4096..%lld",
                 static_cast<long long>(bytes), static_cast<long long>(kMemoryBytes));
  }
  if (!(seconds > 0 && seconds <= kLongestS)) {
    return error(Code::invalid_argument, "seconds %g must be above 0 and at most %g", seconds, kLongestS);
  }
  std::vector<std::byte> own(static_cast<size_t>(kMemoryBytes));
  std::vector<std::byte> arrived(static_cast<size_t>(kMemoryBytes));
  const uint64_t count = static_cast<uint64_t>(bytes) / dtype_size(*dtype);
  std::vector<Nanoseconds> took;
  const Clock& clock = system_clock();
  const Nanoseconds until = deadline_after(clock, seconds);
  int64_t at = 0;
  for (Nanoseconds now = clock.now(); now < until || took.empty();) {
    reduce::reduce(&own[static_cast<size_t>(at)], &own[static_cast<size_t>(at)],
                   &arrived[static_cast<size_t>(at)], count, *dtype, ReduceOp::sum);
    const Nanoseconds then = clock.now();
    took.push_back(std::max<Nanoseconds>(then - now, 1));
    now = then;
    at = at + 2 * bytes > kMemoryBytes ? 0 : at + bytes;
  }
  const auto middle = took.begin() + static_cast<std::ptrdiff_t>(took.size() / 2);
  std::nth_element(took.begin(), middle, took.end());
  const double added = static_cast<double>(count * dtype_size(*dtype));
  return JsonWriter().begin_object().field("bytes_per_s", added * kSecond / static_cast<double>(*middle))
      .end_object().take();
}

}  // namespace nezha::queries
