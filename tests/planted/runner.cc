// planted_bugs [--full] [--bug NAME] [--cases N] [--jobs N] [--score SHARE] [--write]
//
// Runs the simulation for every planted bug (bugs.py), each in a process of its own, until something is
// wrong; and once for the library as it is, which must pass. caught_by.txt says by which case a bug was
// caught before: that one comes first, and the blind search only where it does not help, and not for a
// bug that the file calls missed. --full searches blindly from the beginning, and --write writes down
// what caught. Prints a table and the score; exits with 1 when the share of bugs caught is below
// SHARE, when a bug that caught_by.txt names is not caught, or when the library itself is found wrong.
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <new>
#include <set>
#include <string>
#include <vector>

#include "base/log.h"
#include "planted.h"
#include "planted/cases.h"

namespace nezha::simulation {
namespace {

constexpr rlim_t kProcessorSecondsMax = 20;  // for one case
constexpr rlim_t kMemoryMax = rlim_t{4} << 30;
constexpr double kScoreMin = 0.95;
const std::string kMissed = "missed";  // in caught_by.txt: a search with --full found no case

struct Options {
  bool full = false;
  bool write = false;
  std::string only;
  uint64_t cases = 0;  // of the blind search; 0: as many as the form takes
  size_t jobs = 2;
  double score = kScoreMin;
};

// What the process that tries a bug shares with the one that started it.
struct Attempt {
  int number = 0;  // of the bug; 0: the library as it is
  pid_t child = -1;
  uint64_t cases = 0;  // begun
  char by[240] = "";   // the case that is running, or that was the last
  char wrong[240] = "";
  // By the one that started it, at the end:
  bool caught = false;
  double seconds = 0;  // of the processor
};

using Hints = std::map<std::string, std::string>;  // by bug: the case that caught it

Hints read_hints() {
  Hints hints;
  std::ifstream file(NEZHA_CAUGHT_BY);
  for (std::string line; std::getline(file, line);) {
    const size_t space = line.find(' ');
    if (line.empty() || line[0] == '#' || space == std::string::npos) continue;
    hints[line.substr(0, space)] = line.substr(line.find_first_not_of(' ', space));
  }
  return hints;
}

// A bug may never come back: a case may use so much of the processor from now on.
void limit_processor() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto used = static_cast<rlim_t>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec);
  const rlimit processor{used + kProcessorSecondsMax, RLIM_INFINITY};
  setrlimit(RLIMIT_CPU, &processor);
}

[[noreturn]] void try_cases(Attempt& attempt, const std::vector<std::string>& names) {
  // A bug may fill the memory, or crash.
  const rlimit memory{kMemoryMax, kMemoryMax};
  const rlimit core{0, 0};
  setrlimit(RLIMIT_AS, &memory);
  setrlimit(RLIMIT_CORE, &core);
  (void)!freopen("/dev/null", "w", stderr);
  planted::active = attempt.number;
  Cases cases;
  for (const std::string& name : names) {
    limit_processor();
    ++attempt.cases;
    std::snprintf(attempt.by, sizeof(attempt.by), "%s", name.c_str());
    const std::string wrong = cases.run(name);
    std::snprintf(attempt.wrong, sizeof(attempt.wrong), "%s", wrong.substr(0, wrong.find('\n')).c_str());
    if (!wrong.empty()) break;
  }
  std::_Exit(0);
}

void finish(Attempt& attempt, int status, const rusage& usage) {
  attempt.seconds = static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                    static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
  if (WIFSIGNALED(status)) {
    const int by = WTERMSIG(status);
    std::snprintf(attempt.wrong, sizeof(attempt.wrong), "%s",
                  by == SIGXCPU ? "never came back" : strsignal(by));
  }
  attempt.caught = attempt.wrong[0] != '\0';
}

class Campaign {
 public:
  explicit Campaign(const Options& options) : options_(options), hints_(read_hints()) {}

  // The status to exit with.
  int run() {
    const auto count = static_cast<size_t>(planted::kBugCount) + 1;
    void* const memory = mmap(nullptr, count * sizeof(Attempt), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return std::perror("mmap"), 2;
    attempts_ = new (memory) Attempt[count];
    size_t running = 0;
    for (int number = 0; number <= planted::kBugCount; ++number) {
      const std::string name = planted::kBugs[number].name;
      if (!options_.only.empty() && number > 0 && options_.only != name) continue;
      if (running == options_.jobs) await(), --running;
      start(number, number == 0 ? cases_of_library() : cases_of(name));
      ++running;
    }
    for (; running > 0; --running) await();
    return sum_up();
  }

 private:
  std::vector<std::string> cases_of(const std::string& bug) const {
    std::vector<std::string> names;
    const auto hint = hints_.find(bug);
    const bool known = hint != hints_.end() && !options_.full;
    if (known && hint->second == kMissed && options_.only.empty()) return names;
    if (known && hint->second != kMissed) names.push_back(hint->second);
    for (uint64_t number = 0; number < options_.cases; ++number) names.push_back(Cases::name(number));
    return names;
  }
  // What says that a bug is there must not say so where none is.
  std::vector<std::string> cases_of_library() const {
    std::set<std::string> names;
    for (const auto& [bug, by] : hints_) {
      if (by != kMissed && (options_.only.empty() || options_.only == bug)) names.insert(by);
    }
    for (uint64_t number = 0; number < options_.cases && options_.full; ++number) {
      names.insert(Cases::name(number));
    }
    return {names.begin(), names.end()};
  }
  void start(int number, const std::vector<std::string>& names) {
    Attempt& attempt = attempts_[number];
    attempt.number = number;
    std::fflush(stdout);
    const pid_t child = fork();
    if (child < 0) std::perror("fork"), std::exit(2);
    if (child == 0) try_cases(attempt, names);
    attempt.child = child;
    tried_.push_back(&attempt);
  }
  void await() {
    int status = 0;
    rusage usage{};
    const pid_t ended = wait4(-1, &status, 0, &usage);
    for (Attempt* attempt : tried_) {
      if (attempt->child == ended) return report(*attempt, status, usage);
    }
  }
  void report(Attempt& attempt, int status, const rusage& usage) const {
    finish(attempt, status, usage);
    const char* const name = attempt.number == 0 ? "the library as it is"
                                                 : planted::kBugs[attempt.number].name;
    const char* const verdict =
        attempt.number == 0 ? (attempt.caught ? "WRONG" : "right") : attempt.caught ? "caught" : "MISSED";
    std::printf("%-6s  %-34s %6.2f s %4llu  %s%s%s\n", verdict, name, attempt.seconds,
                static_cast<unsigned long long>(attempt.cases), attempt.caught ? attempt.by : "",
                attempt.caught ? ": " : planted::kBugs[attempt.number].pitfall,
                std::string(attempt.wrong).substr(0, 100).c_str());
    std::fflush(stdout);
  }
  int sum_up() const {
    int tried = 0;
    int caught = 0;
    int broken = 0;
    double seconds = 0;
    for (const Attempt* attempt : tried_) {
      seconds += attempt->seconds;
      if (attempt->number == 0) continue;
      ++tried;
      caught += attempt->caught ? 1 : 0;
      const char* const name = planted::kBugs[attempt->number].name;
      if (attempt->caught || !hints_.contains(name) || hints_.at(name) == kMissed) continue;
      std::printf("%s was caught before, by %s, and is not any more\n", name, hints_.at(name).c_str());
      ++broken;
    }
    const double share = tried == 0 ? 0 : static_cast<double>(caught) / tried;
    std::printf("%d of %d planted bugs caught: %.1f %%; %.0f s of the processor\n", caught, tried,
                100 * share, seconds);
    if (options_.write) write_hints();
    return tried_.front()->caught || broken > 0 || share < options_.score ? 1 : 0;
  }
  void write_hints() const {
    std::map<std::string, std::string> by = options_.only.empty() ? Hints() : hints_;
    for (const Attempt* attempt : tried_) {
      if (attempt->number == 0) continue;
      by[planted::kBugs[attempt->number].name] = attempt->caught ? attempt->by : kMissed;
    }
    std::ofstream file(NEZHA_CAUGHT_BY);
    file << "# By which case each planted bug was caught: planted_bugs --full --write\n";
    for (const auto& [bug, name] : by) file << bug << ' ' << name << '\n';
  }

  const Options options_;
  const Hints hints_;
  Attempt* attempts_ = nullptr;
  std::vector<Attempt*> tried_;
};

}  // namespace
}  // namespace nezha::simulation

int main(int argc, char** argv) {
  nezha::simulation::Options options;
  nezha::log::set_level(nezha::log::Level::error);
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const char* const value = i + 1 < argc ? argv[i + 1] : "";
    if (word == "--full") options.full = true;
    else if (word == "--write") options.write = true;
    else if (word == "--bug") options.only = value, ++i;
    else if (word == "--cases") options.cases = std::strtoull(value, nullptr, 10), ++i;
    else if (word == "--jobs") options.jobs = std::strtoull(value, nullptr, 10), ++i;
    else if (word == "--score") options.score = std::strtod(value, nullptr), ++i;
    else return std::fprintf(stderr, "planted_bugs: unknown option %s\n", word.c_str()), 2;
  }
  if (options.cases == 0) options.cases = options.full ? 2000 : 480;
  return nezha::simulation::Campaign(options).run();
}
