// Every call for a descriptor, a watch, a thread, a buffer or memory fails once, one at a time: the job
// gets named errors or does not mind, gives back what it took, and works again.
//
// Each case is a process of its own, so that a crash or a hang is a finding with a number, and not the
// end of the test. `--long` tries every call, alone and as the first of several; else a fair sample.
// `--call N [HOW_MANY]` repeats one finding.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

#include "base/clock.h"
#include "exhaustion/faults.h"
#include "support/sockets.h"
#include "support/world.h"

namespace nezha::testing {
namespace {

constexpr int kRanks = 3;
constexpr unsigned kHang_s = 300;
constexpr double kPatient_s = 60;
// While one rank cannot start, the others wait for this. A busy machine may be too slow for it: what
// fails is tried again with the longer one.
constexpr double kHasty_s = 2;
constexpr double kAgain_s = 15;
constexpr size_t kAtOnce = 24;
bool every_call = false;
long only_call = 0;  // > 0: in this process, for a debugger
long only_many = 1;
bool shares_memory = false;  // the ranks; otherwise they talk over the loopback

using Comm = std::unique_ptr<context::Communicator>;

Status sum(context::Communicator& comm, size_t count) {
  std::vector<int32_t> data(count, 1);
  NEZHA_RETURN_IF_ERROR(comm.all_reduce(data.data(), data.data(), data.size(), Dtype::int32,
                                        ReduceOp::sum, {}, nullptr));
  if (data == std::vector<int32_t>(count, comm.world_size())) return Status::ok();
  return error(Code::internal, "a wrong sum");
}

Status mail(context::Communicator& comm, int rank) {
  std::array<int32_t, 1000> data{};
  if (rank == 2) return Status::ok();
  if (rank == 0) return comm.send(data.data(), data.size(), Dtype::int32, 1, 7, {}, nullptr);
  return comm.receive(data.data(), data.size(), Dtype::int32, 0, 7, {}, nullptr);
}

Status use(context::Communicator& comm, int rank) {
  NEZHA_RETURN_IF_ERROR(sum(comm, 10));
  NEZHA_RETURN_IF_ERROR(sum(comm, 300'000));
  NEZHA_RETURN_IF_ERROR(mail(comm, rank));
  auto part = comm.split(rank % 2, rank);
  if (!part) return part.status();
  return sum(**part, 1000);
}

Status recover(context::Communicator& comm) {
  auto survivors = comm.shrink(0);
  if (!survivors) return survivors.status();
  return sum(**survivors, 1000);
}

// As a caller of the C API sees it.
template <class Call>
Status guarded(Call call) {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    return {Code::exhausted, "out of memory"};
  }
}

// Of one rank.
struct Outcome {
  Status joined;
  Status used;
  Status recovered;  // all that joined and, whatever came of their operations, shrink()
  const Status& first_error() const { return !joined ? joined : !used ? used : recovered; }
};

// Nobody shrinks while others still use the communicator: `used` is where all ranks meet.
Outcome live(int rank, const std::string& store, double timeout_s, std::barrier<>& used) {
  Outcome outcome;
  Comm comm;
  outcome.joined = guarded([&] {
    context::ContextRequest request = request_of(rank, kRanks, store, 2);
    request.timeout_s = timeout_s;
    request.config += "linger_s=0.5\nprobe_timeout_s=2\n";
    if (shares_memory) request.config += "shm=auto\n";
    auto joined = join(request);
    if (joined) comm = std::move(*joined);
    return joined.status();
  });
  if (comm != nullptr) outcome.used = guarded([&] { return use(*comm, rank); });
  used.arrive_and_wait();
  if (comm != nullptr) outcome.recovered = guarded([&] { return recover(*comm); });
  return outcome;
}

using Outcomes = std::array<Outcome, kRanks>;

Outcomes scenario(double timeout_s) {
  exempt(true);  // what belongs to the test
  // Rank 0 serves it, so that memory can run out in the server's thread, too.
  const std::string store = fresh_tcp_store();
  Outcomes outcomes;
  std::barrier used(kRanks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      Outcome outcome = live(rank, store, timeout_s, used);
      exempt(true);  // what follows is the test's
      outcomes[static_cast<size_t>(rank)] = std::move(outcome);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

int running_threads() {
  std::error_code ignored;
  const auto tasks = std::filesystem::directory_iterator("/proc/self/task", ignored);
  return static_cast<int>(std::distance(tasks, {}));
}

// A thread that was joined can still be listed for a moment.
int threads_left() {
  const auto until = system_clock().now() + 10 * kSecond;
  while (running_threads() > 1 && system_clock().now() < until) std::this_thread::yield();
  return running_threads() - 1;
}

// The calls that fail.
struct Case {
  Resource resource = Resource::descriptor;
  long nth = 0;
  long how_many = 1;
};

struct Report {
  bool in_haste = false;  // the finding may be the deadline's fault
  long calls = 0;
  long failures = 0;
  char finding[3000] = "";  // "" when all is well
};

void find(Report& report, const std::string& text) {
  if (report.finding[0] == '\0') {
    std::snprintf(report.finding, sizeof(report.finding), "%s", text.c_str());
  }
}

// When one call failed, memory is there again for shrink(): whoever joined gets a working communicator.
void judge(Report& report, const Case& what, const Outcomes& outcomes, double timeout_s) {
  bool any_error = false;
  bool any_exhausted = false;
  std::string all;
  for (const Outcome& outcome : outcomes) {
    const Status& error = outcome.first_error();
    any_error = any_error || !error;
    any_exhausted = any_exhausted || error.code() == Code::exhausted;
    all += error.to_string() + " | ";
    if (error.code() == Code::internal) return find(report, "internal error: " + all);
  }
  if (any_error && !any_exhausted) find(report, "nobody says what ran out: " + all);
  for (const Outcome& outcome : outcomes) {
    if (what.how_many > 1 || outcome.used || outcome.recovered) continue;
    find(report, all + "and no recovery: " + outcome.recovered.to_string());
  }
  report.in_haste = report.finding[0] != '\0' && timeout_s < kAgain_s;
}

void expect_well(Report& report, const char* when) {
  bool any_error = false;
  std::string all = when;
  for (const Outcome& outcome : scenario(kPatient_s)) {
    any_error = any_error || !outcome.first_error();
    all += outcome.first_error().to_string() + " | ";
  }
  if (any_error) find(report, all);
}

Report try_case(const Case& what, double timeout_s) {
  Report report;
  expect_well(report, "before: ");  // opens what a process opens only once
  report.in_haste = report.finding[0] != '\0';
  if (report.in_haste) return report;
  const int descriptors = open_descriptors();
  arm(what.resource, what.nth, what.how_many);
  const auto outcomes = scenario(timeout_s);
  disarm();
  report.calls = calls(what.resource);
  report.failures = failures();
  judge(report, what, outcomes, timeout_s);
  const int left = open_descriptors() - descriptors;
  if (left != 0) find(report, "descriptors left open: " + std::to_string(left));
  if (const int count = threads_left(); count > 0) {
    find(report, "threads left: " + std::to_string(count));
  }
  expect_well(report, "afterwards: ");
  if (report.finding[0] != '\0') {
    const std::string what_is_wrong = report.finding;
    report.finding[0] = '\0';
    find(report, what_is_wrong + "; first failure at" + first_failure());
  }
  return report;
}

// A case in a process of its own.
struct Child {
  Case what;
  pid_t process = 0;
  int pipe = -1;
};

Child start_case(const Case& what, double timeout_s) {
  int ends[2];
  if (pipe(ends) != 0) return {};
  std::fflush(nullptr);
  const pid_t process = fork();
  if (process == 0) {
    alarm(kHang_s);
    const Report report = try_case(what, timeout_s);
    _exit(write(ends[1], &report, sizeof(report)) == sizeof(report) ? 0 : 3);
  }
  close(ends[1]);
  return {what, process, ends[0]};
}

Report finish_case(const Child& child) {
  Report report;
  const bool whole = read(child.pipe, &report, sizeof(report)) == sizeof(report);
  close(child.pipe);
  int status = 0;
  waitpid(child.process, &status, 0);
  if (whole) return report;
  report = Report();
  const int number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  find(report, number == SIGALRM ? "hangs" : std::string("crash: ") + strsignal(number));
  return report;
}

// All calls of one resource in turn, some at a time.
class Series {
 public:
  void add(const Case& what) {
    if (running_.size() == kAtOnce) finish_first();
    running_.push_back(start_case(what, kHasty_s));
  }
  int finish() {
    while (!running_.empty()) finish_first();
    return failed_;
  }

 private:
  void finish_first() {
    const Child child = running_.front();
    running_.erase(running_.begin());
    Report report = finish_case(child);
    // Not the others: what fails at the same number may be another call the next time.
    if (report.in_haste) report = finish_case(start_case(child.what, kAgain_s));
    if (report.failures > 0) ++failed_;
    if (report.finding[0] == '\0') return;
    ADD_FAILURE() << name_of(child.what.resource) << " call " << child.what.nth << " and "
                  << child.what.how_many - 1 << " more: " << report.finding;
  }

  std::vector<Child> running_;
  int failed_ = 0;
};

class Exhaustion : public ::testing::TestWithParam<std::tuple<Resource, bool>> {};

TEST_P(Exhaustion, EveryCallFailsOnce) {
  const Resource resource = std::get<0>(GetParam());
  shares_memory = std::get<1>(GetParam());
  if (only_call > 0) {
    const Report report = try_case({resource, only_call, only_many}, kPatient_s);
    ASSERT_STREQ(report.finding, "");
    return;
  }
  constexpr long kNever = 1L << 40;
  const Report clean = finish_case(start_case({resource, kNever, 1}, kPatient_s));
  ASSERT_STREQ(clean.finding, "");
  ASSERT_GT(clean.calls, 0);
  constexpr long kSample = 24;
  constexpr long kSeveral = 20;
  const long step = every_call ? 1 : (clean.calls + kSample - 1) / kSample;
  Series series;
  for (long nth = 1; nth <= clean.calls; nth += step) {
    const bool alone = nth / step % 2 == 0;
    if (every_call || alone) series.add({resource, nth, 1});
    if (every_call || !alone) series.add({resource, nth, kSeveral});
  }
  const int failed = series.finish();
  std::printf("%s: %ld calls, failures in %d cases\n", name_of(resource).data(), clean.calls, failed);
  EXPECT_GE(failed, 1);
}

// What tells of it while an engine ends its work, from which nothing may be thrown.
TEST(OutOfMemory, IsToldWithoutMemory) {
  arm(Resource::memory, 1, 20);
  const Status told =
      nothrow_error(Code::aborted, "rank %d: more than fits into a string without memory", 3);
  disarm();
  EXPECT_EQ(failures(), 1);
  EXPECT_EQ(told.code(), Code::aborted);
  EXPECT_EQ(told.message(), "out of memory");
  EXPECT_EQ(nothrow_error(Code::aborted, "rank %d: more than fits", 3).message(),
            "rank 3: more than fits");
}

INSTANTIATE_TEST_SUITE_P(Resources, Exhaustion,
                         ::testing::Combine(::testing::Values(Resource::descriptor, Resource::watch,
                                                              Resource::thread, Resource::buffer,
                                                              Resource::memory),
                                            ::testing::Bool()),
                         [](const auto& which) {
                           const bool shared = std::get<1>(which.param);
                           return std::string(name_of(std::get<0>(which.param))) + (shared ? "_shm" : "");
                         });

}  // namespace

void choose(int argc, char** argv) {
  every_call = argc == 2 && std::strcmp(argv[1], "--long") == 0;
  if (argc < 3 || std::strcmp(argv[1], "--call") != 0) return;
  only_call = std::atol(argv[2]);
  if (argc > 3) only_many = std::atol(argv[3]);
}

}  // namespace nezha::testing

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  nezha::testing::choose(argc, argv);
  return RUN_ALL_TESTS();
}
