#include "context/affinity.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <string>

namespace nezha::context {

Result<std::vector<int>> parse_cpu_list(std::string_view text) {
  std::vector<int> cpus;
  while (!text.empty()) {
    const std::string_view entry = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), entry.size() + 1));
    int first = -1;
    auto [end, failure] = std::from_chars(entry.data(), entry.data() + entry.size(), first);
    int last = first;
    const char* const stop = entry.data() + entry.size();
    if (failure == std::errc() && end != stop && *end == '-') {
      auto rest = std::from_chars(end + 1, stop, last);
      end = rest.ptr;
      failure = rest.ec;
    }
    if (failure != std::errc() || end != stop || first < 0 || last < first || last >= CPU_SETSIZE) {
      return error(Code::invalid_argument, "cpu_affinity: '%s' is not a processor or a range such as "
                   "0-3", std::string(entry).c_str());
    }
    for (int cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
  }
  return cpus;
}

Status apply_affinity(std::string_view text, const std::function<Status()>& start) {
  auto cpus = parse_cpu_list(text);
  if (!cpus) return cpus.status();
  if (cpus->empty()) return start();
  cpu_set_t before;
  cpu_set_t wanted;
  CPU_ZERO(&wanted);
  for (const int cpu : *cpus) CPU_SET(cpu, &wanted);
  sched_getaffinity(0, sizeof(before), &before);
  if (sched_setaffinity(0, sizeof(wanted), &wanted) != 0) {
    return error(Code::invalid_argument, "cpu_affinity=%s: %s", std::string(text).c_str(),
                 std::strerror(errno)).with_errno(errno);
  }
  Status started = start();
  sched_setaffinity(0, sizeof(before), &before);
  return started;
}

}  // namespace nezha::context
