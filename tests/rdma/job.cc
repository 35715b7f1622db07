// rdma_job: one rank of a job in the guest: rounds of collectives, every element compared, until it is
// told to stop. A program of its own: starting Python with numpy costs an emulated machine seconds.
//
// Usage: rdma_job RANK WORLD_SIZE STORE ELEMENTS; the rest of the configuration from the environment.
// Prints `@round N RAILS` after each round, RAILS as nezha_describe(comm, "rails") gives it. A line on
// the standard input of any rank stops the job: the wish travels in the operations themselves, so that
// all stop after the same round. Ends with 1 and a sentence when anything fails or differs.
#include <nezha/nezha.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

using Values = std::vector<int32_t>;

constexpr int32_t kStop = 1 << 20;  // more than any sum of what value_of makes
constexpr int kRoot = 1;

struct Job {
  nezha_comm_t comm = nullptr;
  int rank = 0;
  int size = 0;
  size_t elements = 0;  // a multiple of `size`
  int32_t round = 0;
};

[[noreturn]] void give_up(const Job& job, const std::string& what) {
  std::fprintf(stderr, "rank %d, round %d: %s\n", job.rank, job.round, what.c_str());
  std::exit(1);
}

void check(const Job& job, const char* what, nezha_code code) {
  if (code == NEZHA_OK) return;
  give_up(job, std::string(what) + ": " + nezha_code_name(code) + ": " + nezha_last_error());
}

// Differs from element to element, round to round, rank to rank; what `which` tells apart, too.
int32_t value_of(const Job& job, int which, int rank, size_t at) {
  return static_cast<int32_t>((at * (static_cast<size_t>(rank) + 3) +
                               static_cast<size_t>(job.round) * 7 + static_cast<size_t>(which)) % 1009);
}

int32_t sum_of(const Job& job, int which, size_t at) {
  int32_t sum = 0;
  for (int rank = 0; rank < job.size; ++rank) sum += value_of(job, which, rank, at);
  return sum;
}

Values contribution(const Job& job, int which) {
  Values values(job.elements);
  for (size_t at = 0; at < values.size(); ++at) values[at] = value_of(job, which, job.rank, at);
  return values;
}

template <class Expected>
void compare(const Job& job, const char* what, const Values& values, Expected expected) {
  for (size_t at = 0; at < values.size(); ++at) {
    if (values[at] == expected(at)) continue;
    give_up(job, std::string(what) + ": element " + std::to_string(at) + " is " +
                     std::to_string(values[at]) + ", not " + std::to_string(expected(at)));
  }
}

bool is_told_to_stop() {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  return poll(&input, 1, 0) > 0;
}

// Whether any rank was told to stop.
bool all_reduce(const Job& job) {
  Values values = contribution(job, 0);
  if (is_told_to_stop()) values[0] += kStop;
  check(job, "all_reduce", nezha_all_reduce(job.comm, values.data(), values.data(), values.size(),
                                            NEZHA_INT32, NEZHA_SUM, nullptr, nullptr));
  const bool stops = values[0] >= kStop;
  values[0] %= kStop;
  compare(job, "all_reduce", values, [&](size_t at) { return sum_of(job, 0, at); });
  return stops;
}

void reduce_scatter_and_all_gather(const Job& job) {
  const size_t block = job.elements / static_cast<size_t>(job.size);
  const size_t first = block * static_cast<size_t>(job.rank);
  Values own(block);
  check(job, "reduce_scatter",
        nezha_reduce_scatter(job.comm, contribution(job, 1).data(), own.data(), block, NEZHA_INT32,
                             NEZHA_SUM, nullptr, nullptr));
  compare(job, "reduce_scatter", own, [&](size_t at) { return sum_of(job, 1, first + at); });
  Values all(job.elements);
  check(job, "all_gather", nezha_all_gather(job.comm, own.data(), all.data(), block, NEZHA_INT32, nullptr,
                                            nullptr));
  compare(job, "all_gather", all, [&](size_t at) { return sum_of(job, 1, at); });
}

void broadcast(const Job& job) {
  Values values = contribution(job, 2);
  check(job, "broadcast", nezha_broadcast(job.comm, values.data(), values.size(), NEZHA_INT32, kRoot,
                                          nullptr, nullptr));
  compare(job, "broadcast", values, [&](size_t at) { return value_of(job, 2, kRoot, at); });
}

void report(const Job& job) {
  std::string text(64 << 10, '\0');
  size_t needed = 0;
  check(job, "describe", nezha_describe(job.comm, "rails", text.data(), text.size(), &needed));
  std::printf("@round %d %s\n", job.round, text.c_str());
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: rdma_job RANK WORLD_SIZE STORE ELEMENTS\n");
    return 2;
  }
  Job job;
  job.rank = std::atoi(argv[1]);
  job.size = std::max(1, std::atoi(argv[2]));
  const size_t ranks = static_cast<size_t>(job.size);
  job.elements = (std::strtoul(argv[4], nullptr, 10) + ranks) / ranks * ranks;
  nezha_init_options options{};
  options.struct_size = sizeof(options);
  options.rank = job.rank;
  options.world_size = job.size;
  options.store = argv[3];
  check(job, "init", nezha_init(&options, &job.comm));
  for (bool stops = false; !stops; ++job.round) {
    stops = all_reduce(job);
    reduce_scatter_and_all_gather(job);
    broadcast(job);
    report(job);
  }
  nezha_destroy(job.comm);
  return 0;
}
