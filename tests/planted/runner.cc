// planted_bugs [--cases N] [--bug NAME] [--score SHARE]
//
// Runs the simulation once for the library as it is, which must pass, and once for every planted bug
// (bugs.py) until something is wrong. Prints who was caught by what, and the score; exits with 1 when the
// share of bugs caught is below SHARE, or when the library itself is found wrong.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "base/log.h"
#include "planted.h"
#include "simulation/hostile.h"
#include "simulation/protocol_points.h"
#include "simulation/recovery.h"
#include "simulation/scenario.h"

namespace nezha::simulation {
namespace {

constexpr rlim_t kProcessorSecondsMax = 25;
constexpr rlim_t kMemoryMax = rlim_t{4} << 30;

struct Verdict {
  bool caught = false;
  std::string how;
};

// The `number`th case of the suite: "" or what is wrong.
std::string run_case(uint64_t number, PointRunner& points) {
  const auto named = [](const std::string& name, const std::string& wrong) {
    return wrong.empty() ? wrong : name + ": " + wrong;
  };
  const uint64_t seed = number / 6 + 1;
  switch (number % 6) {
    case 0: return named("scenario " + std::to_string(seed), run(random_scenario(seed)).wrong);
    case 1: {
      const auto checks = recovery_checks();
      const RecoveryCheck& check = checks[seed % checks.size()];
      return named(check.name, check.run(seed));
    }
    case 2: return named("hostile " + std::to_string(seed), run_hostile(seed).wrong);
    default: {
      const size_t all = protocol_points().size();
      std::mt19937_64 random(number);
      const PointCase at{random() % all, random() % all, static_cast<int>(random() % 4),
                         static_cast<Blow>(random() % kBlows), number};
      return named(protocol_points()[at.first].name + " then " + protocol_points()[at.second].name,
                   points.run(at).wrong);
    }
  }
}

std::string run_suite(uint64_t cases) {
  PointRunner points;
  if (!points.wrong().empty()) return "without faults: " + points.wrong();
  for (uint64_t number = 0; number < cases; ++number) {
    std::string wrong = run_case(number, points);
    if (!wrong.empty()) return std::to_string(number + 1) + " cases, " + wrong;
  }
  return "";
}

// In a process of its own: a bug may crash it, fill the memory or never come back.
Verdict try_bug(int number, uint64_t cases) {
  int ends[2];
  if (pipe(ends) != 0) return {false, "no pipe"};
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    const rlimit processor{kProcessorSecondsMax, kProcessorSecondsMax};
    const rlimit memory{kMemoryMax, kMemoryMax};
    const rlimit core{0, 0};
    setrlimit(RLIMIT_CPU, &processor);
    setrlimit(RLIMIT_AS, &memory);
    setrlimit(RLIMIT_CORE, &core);
    (void)!freopen("/dev/null", "w", stderr);
    planted::active = number;
    const std::string wrong = run_suite(cases);
    (void)!write(ends[1], wrong.data(), wrong.size());
    _exit(0);
  }
  close(ends[1]);
  std::string how;
  char part[512];
  for (ssize_t got = 0; (got = read(ends[0], part, sizeof(part))) > 0;) {
    how.append(part, static_cast<size_t>(got));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) {
    const int by = WTERMSIG(status);
    const bool late = by == SIGKILL || by == SIGXCPU;
    return {true, late ? "never came back" : std::string("crashed: ") + strsignal(by)};
  }
  how = how.substr(0, how.find('\n'));
  return {!how.empty(), how};
}

int run_all(uint64_t cases, const std::string& only, double score) {
  const Verdict as_it_is = try_bug(0, cases);
  std::printf("the library as it is: %s\n",
              as_it_is.caught ? as_it_is.how.c_str() : "nothing is wrong");
  int tried = 0;
  int caught = 0;
  for (int number = 1; number <= planted::kBugCount; ++number) {
    const planted::Bug& bug = planted::kBugs[number];
    if (!only.empty() && only != bug.name) continue;
    const Verdict verdict = try_bug(number, cases);
    ++tried;
    caught += verdict.caught ? 1 : 0;
    std::printf("%-7s %-34s %s\n        %s\n", verdict.caught ? "caught" : "MISSED", bug.name,
                bug.pitfall, verdict.how.substr(0, 160).c_str());
    std::fflush(stdout);
  }
  const double share = tried == 0 ? 0 : static_cast<double>(caught) / tried;
  std::printf("%d of %d planted bugs caught: %.1f %%\n", caught, tried, 100 * share);
  return as_it_is.caught || share < score ? 1 : 0;
}

}  // namespace
}  // namespace nezha::simulation

int main(int argc, char** argv) {
  uint64_t cases = 480;
  std::string only;
  double score = 0.95;
  nezha::log::set_level(nezha::log::Level::error);
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--cases") == 0) cases = std::strtoull(argv[i + 1], nullptr, 10);
    if (std::strcmp(argv[i], "--bug") == 0) only = argv[i + 1];
    if (std::strcmp(argv[i], "--score") == 0) score = std::strtod(argv[i + 1], nullptr);
  }
  return nezha::simulation::run_all(cases, only, score);
}
