// Runs a fuzz target without libFuzzer: replays the given corpus, then mutates it for a while.
//
//   frame_fuzz [--seconds N | --executions N] [--seed S] [FILE|DIRECTORY...]
//
// With `--executions 0` it only replays. When the target dies, the input that killed it is written to
// crash-<hash> in the current directory; kept in corpus/<target>/ it is replayed from then on. Under
// `clang++ -fsanitize=fuzzer` compile with
// -DNEZHA_LIBFUZZER: libFuzzer has a main of its own.
#if !defined(NEZHA_LIBFUZZER)

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "fuzz/fuzz.h"

// Present under AddressSanitizer and ThreadSanitizer, which end the process without a signal.
extern "C" __attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)());

namespace {

using Input = std::vector<uint8_t>;

constexpr size_t kInputBytesMax = 512;
constexpr size_t kPoolMax = 256;
constexpr unsigned kHangSeconds = 30;
constexpr uint64_t kRunsPerClockCheck = 256;

struct Options {
  double seconds = 5;
  std::optional<uint64_t> executions;
  uint64_t seed = 1;
  std::vector<std::string> files;
};

// The input being executed, for the handlers.
const uint8_t* current_data = nullptr;
size_t current_size = 0;

// Only async-signal-safe calls from here to on_signal.
void save_current_input() {
  if (current_data == nullptr) return;
  uint64_t hash = 0xCBF29CE484222325;  // FNV-1a
  for (size_t i = 0; i < current_size; ++i) hash = (hash ^ current_data[i]) * 0x100000001B3;
  char name[] = "crash-0000000000000000";
  for (int digit = 0; digit < 16; ++digit) {
    name[sizeof(name) - 2 - digit] = "0123456789abcdef"[(hash >> (4 * digit)) & 15];
  }
  const int file = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  const bool saved =
      file >= 0 && write(file, current_data, current_size) == static_cast<ssize_t>(current_size);
  const char* note = saved ? "fuzz: input saved as " : "fuzz: input could not be saved as ";
  size_t length = 0;
  while (note[length] != 0) ++length;
  bool told = write(STDERR_FILENO, note, length) >= 0;
  told = told && write(STDERR_FILENO, name, sizeof(name) - 1) >= 0;
  told = told && write(STDERR_FILENO, "\n", 1) >= 0;
  current_data = nullptr;  // once
}

void on_signal(int number) {
  save_current_input();
  signal(number, SIG_DFL);
  raise(number);
}

void install_handlers() {
  for (const int number : {SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE, SIGALRM}) {
    signal(number, on_signal);
  }
  if (__sanitizer_set_death_callback != nullptr) {
    __sanitizer_set_death_callback(save_current_input);
  }
}

void execute(const Input& input) {
  current_data = input.data();
  current_size = input.size();
  LLVMFuzzerTestOneInput(input.data(), input.size());
  current_data = nullptr;
}

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : generator_(seed) {}

  size_t below(size_t limit) { return static_cast<size_t>(generator_() % limit); }

  Input mutated(Input input, const Input& other) {
    for (size_t steps = 1 + below(4); steps > 0; --steps) {
      if (input.empty()) input.push_back(static_cast<uint8_t>(generator_()));
      mutate_once(input, other);
    }
    if (input.size() > kInputBytesMax) input.resize(kInputBytesMax);
    return input;
  }

 private:
  void mutate_once(Input& input, const Input& other) {
    static constexpr uint8_t kExtremes[] = {0, 1, 0x7F, 0x80, 0xFF};
    const size_t at = below(input.size());
    switch (below(8)) {
      case 0: input[at] ^= static_cast<uint8_t>(1u << below(8)); break;
      case 1: input[at] = static_cast<uint8_t>(generator_()); break;
      case 2: input[at] = kExtremes[below(std::size(kExtremes))]; break;
      case 3: input[at] = static_cast<uint8_t>(input[at] + 1 - 2 * below(2)); break;
      case 4: input.insert(input.begin() + at, static_cast<uint8_t>(generator_())); break;
      case 5: input.erase(input.begin() + at); break;
      case 6: change_length(input); break;
      default: splice(input, at, other); break;
    }
  }

  // Longer as easily as shorter, or the pool would wear down to nothing.
  void change_length(Input& input) {
    const size_t size = below(kInputBytesMax);
    while (input.size() < size) input.push_back(static_cast<uint8_t>(generator_()));
    input.resize(size);
  }

  void splice(Input& input, size_t at, const Input& other) {
    if (other.empty()) return;
    const size_t from = below(other.size());
    const size_t length = 1 + below(std::min<size_t>(other.size() - from, 32));
    const Input part(other.begin() + from, other.begin() + from + length);
    if (input.size() < at + length) input.resize(at + length);
    std::copy(part.begin(), part.end(), input.begin() + at);
  }

  std::mt19937_64 generator_;
};

int usage(const char* program) {
  std::fprintf(stderr, "usage: %s [--seconds N | --executions N] [--seed S] [FILE|DIRECTORY...]\n",
               program);
  return 2;
}

// Whole and not negative, or nothing.
std::optional<uint64_t> number_of(const char* text) {
  char* end = nullptr;
  const unsigned long long value = std::strtoull(text, &end, 10);
  if (*text < '0' || *text > '9' || *end != 0) return std::nullopt;
  return value;
}

std::optional<Options> parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument.rfind("--", 0) != 0) {
      options.files.push_back(argument);
      continue;
    }
    const std::optional<uint64_t> value = i + 1 < argc ? number_of(argv[++i]) : std::nullopt;
    if (!value) return std::nullopt;
    if (argument == "--seconds") {
      options.seconds = static_cast<double>(*value);
    } else if (argument == "--executions") {
      options.executions = *value;
    } else if (argument == "--seed") {
      options.seed = *value;
    } else {
      return std::nullopt;
    }
  }
  return options;
}

uint64_t fuzz(const Options& options, std::vector<Input> pool) {
  using SteadyClock = std::chrono::steady_clock;
  const auto end = SteadyClock::now() + std::chrono::duration<double>(options.seconds);
  Mutator mutator(options.seed);
  uint64_t executions = 0;
  while (!options.executions || executions < *options.executions) {
    if (executions % kRunsPerClockCheck == 0) {
      if (!options.executions && SteadyClock::now() >= end) break;
      alarm(kHangSeconds);
    }
    const Input& base = pool[mutator.below(pool.size())];
    Input input = mutator.mutated(base, pool[mutator.below(pool.size())]);
    execute(input);
    ++executions;
    // Without coverage there is no merit to select by; drift keeps the inputs from staying alike.
    if (pool.size() < kPoolMax) {
      pool.push_back(std::move(input));
    } else if (mutator.below(16) == 0) {
      pool[mutator.below(pool.size())] = std::move(input);
    }
  }
  alarm(0);
  return executions;
}

// The file, or all files of the directory, in one order everywhere.
std::vector<std::filesystem::path> files_at(const std::string& name) {
  if (!std::filesystem::is_directory(name)) return {name};
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(name)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

bool load(const std::string& name, std::vector<Input>& pool) {
  for (const auto& path : files_at(name)) {
    std::ifstream file(path, std::ios::binary);
    if (!file) {
      std::fprintf(stderr, "fuzz: cannot read %s\n", path.c_str());
      return false;
    }
    pool.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  const std::optional<Options> options = parse(argc, argv);
  if (!options) return usage(argv[0]);
  install_handlers();
  std::vector<Input> pool = {Input(), Input(256, 0), Input(256, 0xFF)};
  for (const std::string& name : options->files) {
    if (!load(name, pool)) return 2;
  }
  alarm(kHangSeconds);
  for (const Input& input : pool) execute(input);
  const uint64_t executions = pool.size() + fuzz(*options, std::move(pool));
  std::printf("fuzz: %llu executions, seed %llu\n", static_cast<unsigned long long>(executions),
              static_cast<unsigned long long>(options->seed));
  return 0;
}

#endif  // !NEZHA_LIBFUZZER
