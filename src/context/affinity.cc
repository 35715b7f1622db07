#include "context/affinity.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <string>

#include "base/log.h"

namespace nezha::context {
namespace {

// "0-1,8", the form that parse_cpu_list() reads.
std::string print_cpus(const cpu_set_t& set) {
  std::string text;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &set)) continue;
    text += (text.empty() ? "" : ",") + std::to_string(cpu);
    const int first = cpu;
    while (cpu + 1 < CPU_SETSIZE && CPU_ISSET(cpu + 1, &set)) ++cpu;
    if (cpu > first) text += "-" + std::to_string(cpu);
  }
  return text;
}

}  // namespace

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

Status set_affinity(pthread_t thread, std::string_view text) {
  auto cpus = parse_cpu_list(text);
  if (!cpus) return cpus.status();
  if (cpus->empty()) return Status::ok();
  const std::string asked = "cpu_affinity=" + std::string(text);
  cpu_set_t wanted;
  cpu_set_t got;
  CPU_ZERO(&wanted);
  for (const int cpu : *cpus) CPU_SET(cpu, &wanted);
  const int refused = pthread_setaffinity_np(thread, sizeof(wanted), &wanted);
  const int unreadable = pthread_getaffinity_np(thread, sizeof(got), &got);
  if (refused != 0 || unreadable != 0) {
    const int failure = refused != 0 ? refused : unreadable;
    return error(Code::invalid_argument, "%s: %s; name processors of this host that this process may "
                 "use%s", asked.c_str(), std::strerror(failure),
                 unreadable == 0 ? (", such as " + print_cpus(got)).c_str() : "").with_errno(failure);
  }
  if (CPU_EQUAL(&wanted, &got)) return Status::ok();
  // The kernel takes what is left of the list without a word.
  cpu_set_t missing;
  CPU_XOR(&missing, &wanted, &got);
  log::warn_once("affinity", asked + ": the background thread runs on " + print_cpus(got) +
                                 " only; not " + print_cpus(missing) + ", which this host does not have "
                                 "or this process may not use (cgroup, taskset)");
  return Status::ok();
}

}  // namespace nezha::context
