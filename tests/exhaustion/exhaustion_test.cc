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
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

#include "exhaustion/faults.h"
#include "support/sockets.h"
#include "support/world.h"

namespace nezha::testing {
namespace {

constexpr int kRanks = 3;
constexpr unsigned kHang_s = 300;
constexpr double kPatient_s = 60;
// While one rank cannot start, the others wait for this. A machine may be too slow for it: see `examine`.
constexpr double kHasty_s = 2;
constexpr size_t kAtOnce = 8;
bool every_call = false;
long only_call = 0;  // > 0: in this process, for a debugger
long only_many = 1;

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

Status life(int rank, const std::string& store, double timeout_s) {
  context::ContextRequest request;
  request.rank = rank;
  request.world_size = kRanks;
  request.store = store;
  request.timeout_s = timeout_s;
  request.config = loopback_config(2) + "linger_s=0.5\nprobe_timeout_s=0.5\n";
  auto comm = join(request);
  if (!comm) return comm.status();
  NEZHA_RETURN_IF_ERROR(sum(**comm, 10));
  NEZHA_RETURN_IF_ERROR(sum(**comm, 300'000));
  NEZHA_RETURN_IF_ERROR(mail(**comm, rank));
  auto part = (*comm)->split(rank % 2, rank);
  if (!part) return part.status();
  return sum(**part, 1000);
}

// As a caller of the C API sees it.
Status guarded_life(int rank, const std::string& store, double timeout_s) {
  try {
    return life(rank, store, timeout_s);
  } catch (const std::bad_alloc&) {
    return {Code::exhausted, "out of memory"};
  }
}

std::array<Status, kRanks> scenario(const std::string& store, double timeout_s) {
  std::array<Status, kRanks> outcomes;
  std::vector<std::thread> threads;
  exempt(true);
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      Status outcome = guarded_life(rank, store, timeout_s);
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

// The calls that fail.
struct Case {
  Resource resource = Resource::descriptor;
  long nth = 0;
  long how_many = 1;
};

struct Report {
  bool in_haste = false;  // a deadline may have come before the cause was told
  long calls = 0;
  long failures = 0;
  char finding[400] = "";  // "" when all is well
};

void find(Report& report, const std::string& text) {
  if (report.finding[0] == '\0') {
    std::snprintf(report.finding, sizeof(report.finding), "%s", text.c_str());
  }
}

void judge(Report& report, const std::array<Status, kRanks>& outcomes, double timeout_s) {
  bool any_error = false;
  bool any_exhausted = false;
  std::string all;
  for (const Status& outcome : outcomes) {
    any_error = any_error || !outcome.is_ok();
    any_exhausted = any_exhausted || outcome.code() == Code::exhausted;
    all += outcome.to_string() + " | ";
    if (outcome.code() == Code::internal) find(report, "internal error: " + all);
  }
  if (!any_error || any_exhausted) return;
  report.in_haste = timeout_s < kPatient_s;
  find(report, "nobody says what ran out: " + all);
}

Report try_case(const Case& what, double timeout_s) {
  Report report;
  for (const Status& outcome : scenario("hash://before", kPatient_s)) {  // what a process opens only once
    if (!outcome) find(report, "before: " + outcome.to_string());
  }
  const int descriptors = open_descriptors();
  arm(what.resource, what.nth, what.how_many);
  const auto outcomes = scenario("hash://during", timeout_s);
  disarm();
  report.calls = calls(what.resource);
  report.failures = failures();
  judge(report, outcomes, timeout_s);
  const int left = open_descriptors() - descriptors;
  if (left != 0) find(report, "descriptors left open: " + std::to_string(left));
  if (running_threads() != 1) find(report, "threads left: " + std::to_string(running_threads() - 1));
  for (const Status& outcome : scenario("hash://after", kPatient_s)) {
    if (!outcome) find(report, "afterwards: " + outcome.to_string());
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
    if (report.in_haste) report = finish_case(start_case(child.what, kPatient_s));
    if (report.failures > 0) ++failed_;
    if (report.finding[0] == '\0') return;
    ADD_FAILURE() << name_of(child.what.resource) << " call " << child.what.nth << " and "
                  << child.what.how_many - 1 << " more: " << report.finding;
  }

  std::vector<Child> running_;
  int failed_ = 0;
};

class Exhaustion : public ::testing::TestWithParam<Resource> {};

TEST_P(Exhaustion, EveryCallFailsOnce) {
  const Resource resource = GetParam();
  if (only_call > 0) {
    const Report report = try_case({resource, only_call, only_many}, kPatient_s);
    ASSERT_STREQ(report.finding, "");
    return;
  }
  constexpr long kNever = 1L << 40;
  const Report clean = finish_case(start_case({resource, kNever, 1}, kPatient_s));
  ASSERT_STREQ(clean.finding, "");
  ASSERT_GT(clean.calls, 0);
  constexpr long kSample = 8;
  constexpr long kSeveral = 20;
  const long step = every_call ? 1 : std::max(1L, clean.calls / kSample);
  Series series;
  for (long nth = 1; nth <= clean.calls; nth += step) {
    if (every_call || nth % 2 == 1) series.add({resource, nth, 1});
    if (every_call || nth % 2 == 0) series.add({resource, nth, kSeveral});
  }
  const int failed = series.finish();
  std::printf("%s: %ld calls, failures in %d cases\n", name_of(resource).data(), clean.calls, failed);
  EXPECT_GE(failed, 1);
}

INSTANTIATE_TEST_SUITE_P(Resources, Exhaustion,
                         ::testing::Values(Resource::descriptor, Resource::watch, Resource::thread,
                                           Resource::buffer, Resource::memory),
                         [](const auto& which) { return std::string(name_of(which.param)); });

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
