// A process that calls exit() while its ranks are at work in other threads ends as it was told to, and
// the others hear that it is lost.
#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <thread>

#include "support/child.h"
#include "support/temp_directory.h"
#include "support/world.h"

namespace nezha::testing {
namespace {

struct Report {
  Code code = Code::ok;
};
using Rank = Child<Report>;

std::unique_ptr<context::Communicator> joined(int rank, const std::string& store) {
  auto comm = join(request_of(rank, 2, store, 2));
  return comm ? std::move(*comm) : nullptr;
}

// Until it fails.
Status reduce_on(context::Communicator& comm, uint64_t count, std::atomic<int>& done) {
  std::vector<float> data(count, 0.0F);
  for (;;) {
    const Status outcome = comm.all_reduce(data.data(), data.data(), count, Dtype::float32,
                                           ReduceOp::sum, {}, nullptr);
    if (!outcome.is_ok()) return outcome;
    ++done;
  }
}

void leave_at_work(const std::string& store, uint64_t count) {
  auto comm = joined(0, store);
  if (comm == nullptr) _exit(1);
  std::atomic<int> done{0};
  std::thread([&] { (void)reduce_on(*comm, count, done); }).detach();
  while (done < 20) std::this_thread::yield();
  std::exit(0);
}

class Exit : public ::testing::TestWithParam<uint64_t> {};

TEST_P(Exit, InTheMiddleOfWorkIsNoCrash) {
  for (int time = 0; time < 15; ++time) {
    const TempDirectory directory;
    const std::string store = "file://" + directory.path();
    Rank leaver([&](const Rank::Pipe&) { leave_at_work(store, GetParam()); });
    Rank other([&](const Rank::Pipe& pipe) {
      auto comm = joined(1, store);
      std::atomic<int> done{0};
      Report report;
      if (comm != nullptr) report.code = reduce_on(*comm, GetParam(), done).code();
      pipe.tell(report);
    });
    Report report;
    ASSERT_TRUE(other.next(&report));
    EXPECT_EQ(report.code, Code::peer_lost);
    const int status = leaver.wait();
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "wait status " << status;
  }
}

INSTANTIATE_TEST_SUITE_P(Elements, Exit, ::testing::Values(2, 200'000));

}  // namespace
}  // namespace nezha::testing
