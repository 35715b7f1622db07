// A rank that dies by SIGKILL: every survivor learns it as `peer_lost` naming the rank, long before
// any deadline, and the communicator keeps saying so.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "base/json.h"
#include "context/rail_list.h"
#include "support/child.h"
#include "support/temp_directory.h"
#include "support/world.h"

namespace nezha::testing {
namespace {

constexpr double kFarDeadline_s = 1e6;

// What a child writes into its pipe.
struct Report {
  enum class Kind : uint8_t { running, ended };
  Kind kind = Kind::running;
  Code code = Code::ok;
  Code again = Code::ok;
  std::array<char, 480> text{};
};

struct Scenario {
  const char* name;
  int victim;
  uint64_t count;
  const char* store;    // "file" or "tcp"
  bool while_waiting;   // the victim dies outside of its call, the others wait for it
  bool leaves_child = false;  // a child of the victim lives on, with whatever it has inherited
  bool fabric = false;        // over a rail of libfabric alone
};

// Of libfabric, through the host's TCP; "" without libfabric.
std::string fabric_rail() {
  const auto fabric = parse_json(context::describe_rail_kind("ofi"));
  for (const JsonValue& device : fabric.value().at("devices").items()) {
    const std::string provider(device.at("provider").string_or(""));
    if (provider == "net" || provider == "tcp") return "ofi:" + provider + "@127.2.0.1";
  }
  return "";
}

using Rank = Child<Report>;

void end(const Rank::Pipe& pipe, const Status& outcome, const Status& again) {
  Report report;
  report.kind = Report::Kind::ended;
  report.code = outcome.code();
  report.again = again.code();
  std::strncpy(report.text.data(), outcome.message().c_str(), report.text.size() - 1);
  pipe.tell(report);
}

// Lives until the test ends.
class Survivor {
 public:
  Survivor() { EXPECT_EQ(pipe(ends_), 0); }
  ~Survivor() {
    for (const int end : ends_) close(end);
  }
  // In the process that is to be its parent.
  void start() const {
    if (fork() != 0) return;
    close(ends_[1]);
    char none;
    while (read(ends_[0], &none, 1) > 0) {
    }
    _exit(0);
  }

 private:
  int ends_[2] = {-1, -1};
};

// One rank: reduces until somebody dies.
void live(int rank, int ranks, const std::string& store, const Scenario& at, const Survivor& survivor,
          const Rank::Pipe& pipe) {
  context::ContextRequest request = request_of(rank, ranks, store, 2);
  request.timeout_s = kFarDeadline_s;
  // Only what the system says of a dead process may tell: silence alone never does.
  request.config += "peer_deadline_s=1000000\n";
  if (at.fabric) request.config += "rails=" + fabric_rail() + "\n";
  auto comm = join(request);
  if (!comm) return end(pipe, comm.status(), comm.status());
  std::vector<float> data(at.count, 0.0F);
  Status outcome;
  for (int repeat = 0; outcome.is_ok(); ++repeat) {
    if (repeat == 3 && rank == at.victim && at.leaves_child) survivor.start();
    if (repeat == 3) pipe.tell(Report());
    if (repeat == 3 && rank == at.victim && at.while_waiting) pause();
    outcome = (*comm)->all_reduce(data.data(), data.data(), at.count, Dtype::float32,
                                  ReduceOp::sum, {}, nullptr);
  }
  end(pipe, outcome, (*comm)->barrier({}, nullptr));
}

std::string store_address(const std::string& kind, const std::string& directory) {
  if (kind == "file") return "file://" + directory;
  return fresh_tcp_store();
}

class RankDies : public ::testing::TestWithParam<Scenario> {};

TEST_P(RankDies, EverySurvivorNamesIt) {
  constexpr int kRanks = 4;
  const Scenario at = GetParam();
  if (at.fabric && fabric_rail().empty()) GTEST_SKIP() << "no libfabric";
  const TempDirectory directory;
  const Survivor survivor;
  const std::string store = store_address(at.store, directory.path());
  std::vector<std::unique_ptr<Rank>> children;
  for (int rank = 0; rank < kRanks; ++rank) {
    children.push_back(std::make_unique<Rank>(
        [&](const Rank::Pipe& pipe) { live(rank, kRanks, store, at, survivor, pipe); }));
  }
  Report report;
  for (const auto& child : children) {
    ASSERT_TRUE(child->next(&report));
    ASSERT_EQ(report.kind, Report::Kind::running) << report.text.data();
  }
  children[static_cast<size_t>(at.victim)]->signal(SIGKILL);
  for (int rank = 0; rank < kRanks; ++rank) {
    if (rank == at.victim) continue;
    ASSERT_TRUE(children[static_cast<size_t>(rank)]->next(&report)) << "rank " << rank << " hangs";
    EXPECT_EQ(report.code, Code::peer_lost) << report.text.data();
    EXPECT_EQ(report.again, Code::peer_lost) << report.text.data();
    EXPECT_NE(std::string(report.text.data()).find("lost rank " + std::to_string(at.victim)),
              std::string::npos)
        << "rank " << rank << ": " << report.text.data();
  }
}

INSTANTIATE_TEST_SUITE_P(
    Scenarios, RankDies,
    ::testing::Values(Scenario{"first_small", 0, 1, "file", false},
                      Scenario{"last_small", 3, 1, "tcp", false},
                      Scenario{"server_of_the_store", 0, 1000, "tcp", false},
                      Scenario{"middle_large", 1, 3'000'000, "file", false},
                      Scenario{"last_large", 3, 3'000'000, "tcp", false},
                      Scenario{"first_large", 0, 500'000, "file", false},
                      Scenario{"others_wait_small", 2, 10, "file", true},
                      Scenario{"others_wait_large", 2, 1'000'000, "file", true},
                      Scenario{"leaves_a_child_small", 1, 10, "file", false, true},
                      Scenario{"leaves_a_child_waiting", 2, 1000, "file", true, true},
                      Scenario{"leaves_a_child_server_of_the_store", 0, 500'000, "tcp", false, true},
                      Scenario{"fabric_large", 1, 500'000, "file", false, false, true},
                      Scenario{"fabric_waiting", 2, 10, "file", true, false, true},
                      Scenario{"fabric_leaves_a_child", 1, 500'000, "file", false, true, true},
                      Scenario{"fabric_leaves_a_child_waiting", 2, 10, "file", true, true, true}),
    [](const auto& scenario) { return std::string(scenario.param.name); });

}  // namespace
}  // namespace nezha::testing
