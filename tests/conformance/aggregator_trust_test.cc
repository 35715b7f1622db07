// An aggregation node and members who mean harm: to the node's memory, and to other jobs; and tickets
// that were overheard.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <random>
#include <vector>

#include "base/json.h"
#include "support/hostile_member.h"
#include "support/aggregation_rank.h"

namespace nezha::testing {
namespace {

using aggregation::NodeSession;

constexpr uint64_t kCommOfAll = engine::CommNumber::kFirstParked + 1;
constexpr const char* kNodeAddress = "127.1.0.1";
constexpr uint64_t kBad = 6;   // the job that has a hostile member
constexpr uint64_t kGood = 8;  // on the same thread of the node

aggregation::AggregatorOptions options_of_node() {
  aggregation::AggregatorOptions options;
  options.address = kNodeAddress;
  options.key = node_key();
  options.threads = 2;
  options.job.bytes_max = 256 << 20;
  return options;
}

// Of a node that gives up no member for its silence: a test's victim is not driven while others send for
// as long as a slow machine takes.
aggregation::AggregatorOptions options_of_patient_node() {
  aggregation::AggregatorOptions options = options_of_node();
  options.job.peer_deadline = options.job.outage = kNever;
  return options;
}

std::unique_ptr<aggregation::Aggregator> start_node(
    const aggregation::AggregatorOptions& options = options_of_node()) {
  auto node = aggregation::Aggregator::start(options);
  EXPECT_TRUE(node) << node.status().to_string();
  return node ? std::move(*node) : nullptr;
}

NodePlace place_of(int rank, int ranks, uint64_t job, uint16_t port) {
  return {rank, ranks, job, port, 1, 0, 0, kNodeAddress};
}

aggregation::Ticket ticket_of(uint64_t job, uint64_t nonce, uint32_t ranks = 2) {
  return {job, 1, ranks, 1, 0, nonce};
}

HostileMember member_of(uint16_t port, uint64_t job, uint64_t nonce, uint32_t ranks = 2) {
  return {port, ticket_of(job, nonce, ranks), aggregation::job_key_of(node_key(), job)};
}

JsonValue stats_of(aggregation::Aggregator& node) { return *parse_json(node.stats_json()); }

int64_t figure_of_job(aggregation::Aggregator& node, uint64_t number, const char* figure) {
  const JsonValue stats = stats_of(node);
  for (const JsonValue& job : stats.at("jobs").items()) {
    if (job.at("job").integer_or(-1) != static_cast<int64_t>(number)) continue;
    return job.at(figure).integer_or(-1);
  }
  return -1;
}

int64_t memory_of_job(aggregation::Aggregator& node, uint64_t number) {
  return figure_of_job(node, number, "memory_bytes");
}

wire::FrameHeader frame_of(uint64_t comm, uint64_t op_seq, uint32_t length) {
  wire::FrameHeader header;
  header.comm = comm;
  header.op_seq = op_seq;
  header.length = length;
  header.op.count = 1000;
  header.op.algorithm = Algorithm::aggregation;
  return header;
}

// A job that works all the time until it is told to stop: what it says then.
class GoodJob {
 public:
  explicit GoodJob(uint16_t port) : port_(port) {
    worker_ = std::thread([this] {
      outcomes_ = run_ranks(kRanks, [this](int rank) { return run(rank); });
    });
    while (rounds_ == 0 && !failed_) std::this_thread::yield();
  }
  ~GoodJob() {
    if (worker_.joinable()) finish();
  }
  // Runs `meanwhile` and says how long half of the operations took at most that ended since.
  template <class Meanwhile>
  Nanoseconds median_time(int rounds, Meanwhile meanwhile) {
    {
      const std::lock_guard lock(mutex_);
      times_.clear();
    }
    meanwhile();
    wait_for(rounds);
    const std::lock_guard lock(mutex_);
    if (times_.empty()) return 0;
    std::sort(times_.begin(), times_.end());
    return times_[times_.size() / 2];
  }
  // That nothing has happened to it, and that it goes on working.
  void expect_unharmed() {
    wait_for(3);
    finish();
    for (const Status& outcome : outcomes_) EXPECT_TRUE(outcome.is_ok()) << outcome.to_string();
  }

 private:
  static constexpr int kRanks = 2;

  void wait_for(int rounds) {
    const int before = rounds_;
    while (rounds_ < before + rounds && !failed_) std::this_thread::yield();
  }
  Status run(int rank) {
    const NodePlace place = place_of(rank, kRanks, kGood, port_);
    AggregationRank self(place);
    Status outcome = self.connect();
    if (outcome.is_ok() && rank == 0) outcome = self.register_group(kCommOfAll, self.flat());
    const bool all = vote_.agree(outcome.is_ok());
    if (all) outcome = self.join(kCommOfAll, self.flat());
    while (all && vote_.agree(outcome.is_ok() && !over_)) {
      const Nanoseconds began = system_clock().now();
      outcome = check_all_reduce(self, place, 100'000);
      if (rank != 0) continue;
      const std::lock_guard lock(mutex_);
      times_.push_back(system_clock().now() - began);
      ++rounds_;
    }
    if (!outcome.is_ok()) failed_ = true;
    return outcome;
  }
  void finish() {
    over_ = true;
    worker_.join();
  }

  const uint16_t port_;
  Vote vote_{kRanks};
  std::atomic<bool> over_{false};
  std::atomic<bool> failed_{false};
  std::atomic<int> rounds_{0};
  std::mutex mutex_;
  std::vector<Nanoseconds> times_;  // of operations; under mutex_
  std::vector<Status> outcomes_;
  std::thread worker_;
};

// --------------------------------------------------------------------------- memory of the node

TEST(AggregatorTrust, KeepsNothingForCommunicatorsThatItDoesNotKnow) {
  const auto node = start_node();
  GoodJob good(node->port());
  HostileMember hostile = member_of(node->port(), kBad, 1);
  ASSERT_TRUE(hostile.join(0));
  ASSERT_TRUE(comes_to_say(*node, "\"ranks_up\":1")) << node->stats_json();
  // A thousand communicators with a frame of 64 KiB each, and failures of others.
  for (uint64_t comm = 0; comm < 1000; ++comm) {
    wire::FrameHeader failure;
    failure.type = wire::FrameType::failure;
    failure.slot = static_cast<uint16_t>(Code::internal);
    failure.comm = kCommOfAll + 2'000'000 + comm;
    hostile.send(failure);
  }
  for (uint64_t comm = 0; comm < 1000; ++comm) {
    hostile.send(frame_of(kCommOfAll + 1'000'000 + comm, 0, 64 * 1024), std::string(64 * 1024, 'x'));
  }
  hostile.flush();
  hostile.hear_all();  // the node closed the connection
  EXPECT_TRUE(comes_to_say(*node, "\"ended\":{\"jobs\":1,")) << node->stats_json();
  good.expect_unharmed();
}

TEST(AggregatorTrust, TakesNoFrameLongerThanItsChunks) {
  const auto node = start_node();
  GoodJob good(node->port());
  AggregationRank victim(place_of(0, 3, kBad, node->port()));
  ASSERT_TRUE(victim.connect().is_ok());
  ASSERT_TRUE(victim.register_group(kCommOfAll, victim.flat()).is_ok());
  HostileMember hostile = member_of(node->port(), kBad, 1, 3);
  ASSERT_TRUE(hostile.join(1));
  hostile.send(frame_of(kCommOfAll, 1, wire::kPayloadBytesMax));
  hostile.flush();
  hostile.hear_all();
  EXPECT_LT(memory_of_job(*node, kBad), 1 << 20);
  good.expect_unharmed();
}

// Within its credit, as the wire counts it; but each frame takes a record, too, and a buffer, rounded up.
TEST(AggregatorTrust, EndsAJobThatMakesItHoldMoreThanItMay) {
  const auto node = start_node(options_of_patient_node());
  GoodJob good(node->port());
  AggregationRank victim(place_of(0, 2, kBad, node->port()));
  ASSERT_TRUE(victim.connect().is_ok());
  ASSERT_TRUE(victim.register_group(kCommOfAll, victim.flat()).is_ok());
  HostileMember hostile = member_of(node->port(), kBad, 1);
  ASSERT_TRUE(hostile.join(1));
  for (uint64_t number = 1; number < 64'000; ++number) hostile.send(frame_of(kCommOfAll, number, 1), "x");
  hostile.flush();
  hostile.hear_all();
  EXPECT_TRUE(comes_to_say(*node, "\"over_budget\":1")) << node->stats_json();
  EXPECT_TRUE(victim.drive([&] { return victim.session().state() == NodeSession::State::lost; }));
  const std::string why = victim.session().reason();
  EXPECT_NE(why.find("more than the"), std::string::npos) << why;
  good.expect_unharmed();
}

TEST(AggregatorTrust, KeepsFewMessagesThatItHasNotAskedFor) {
  const auto node = start_node();
  HostileMember hostile = member_of(node->port(), kBad, 1);
  ASSERT_TRUE(hostile.join(0));
  for (uint64_t number = 0; number < 60'000; ++number) {
    wire::FrameHeader offer;
    offer.op.collective = Collective::send_recv;
    offer.op.plan = 77;  // a tag that nobody waits for
    offer.op.count = 100'000;
    offer.comm = aggregation::registration_comm(0);
    offer.op_seq = number;
    offer.slot = 1;
    offer.chunk = 4096;
    hostile.send(offer);
  }
  hostile.flush();
  hostile.hear_all();
  EXPECT_TRUE(comes_to_say(*node, "\"jobs\":[]")) << node->stats_json();
}

// Who has the node answer, and does not read.
TEST(AggregatorTrust, KeepsFewAnswersThatNobodyReads) {
  const auto node = start_node();
  GoodJob good(node->port());
  HostileMember hostile = member_of(node->port(), kBad, 1);
  ASSERT_TRUE(hostile.join(0));
  ASSERT_TRUE(comes_to_say(*node, "\"job\":6")) << node->stats_json();
  std::atomic<bool> over{false};
  std::thread asking([&] {
    wire::FrameHeader question;
    question.type = wire::FrameType::reconcile;
    question.chunk = 1;  // the epoch
    while (!over) hostile.send(question);
  });
  EXPECT_TRUE(comes_to_say(*node, "\"ended\":{\"jobs\":1")) << node->stats_json();
  over = true;
  asking.join();
  good.expect_unharmed();
}

// Tickets, registration and first words of somebody who holds a key, with numbers at and behind borders.
TEST(AggregatorTrust, OutlivesWhateverAMemberRegisters) {
  using aggregation::kTicketNodesMax;
  using aggregation::kTicketRanksMax;
  constexpr uint32_t kRanks[] = {0, 1, 2, 3, kTicketRanksMax, kTicketRanksMax + 1, ~0u};
  constexpr uint16_t kNodeCounts[] = {0, 1, 1, 1, 2, kTicketNodesMax, kTicketNodesMax + 1, 0xFFFF};
  constexpr uint32_t kSessions[] = {0, 0, 1, 7, ~0u};
  constexpr int kMemberRanks[] = {0, 1, 2, -1, 1 << 20};
  const auto node = start_node();
  GoodJob good(node->port());
  std::mt19937_64 random(1);
  const auto one_of = [&](const auto& values) { return values[random() % std::size(values)]; };
  int let_in = 0, refused = 0;
  for (uint64_t nonce = 1; nonce <= 400; ++nonce) {
    const uint64_t job = kBad + random() % 3 * 10;
    const aggregation::Ticket ticket{job, random() % 2, one_of(kRanks), one_of(kNodeCounts),
                                     one_of(kSessions), nonce};
    HostileMember member(node->port(), ticket, aggregation::job_key_of(node_key(), job));
    member.show_ticket();
    bool is_in = member.say_hello(one_of(kMemberRanks)) && member.answer() == wire::Refusal::none;
    if (is_in) member.prove();
    is_in = is_in && member.pass_test();
    ++(is_in ? let_in : refused);
    for (int frames = is_in ? 20 : 0; frames > 0; --frames) {
      const uint64_t comm = random() % 2 == 0 ? kCommOfAll : aggregation::registration_comm(0);
      wire::FrameHeader header = frame_of(comm, random() % 3, static_cast<uint32_t>(random() % 3 * 100));
      header.type = static_cast<wire::FrameType>(1 + random() % 8);
      if (random() % 2 == 0) header.op.collective = Collective::send_recv;
      header.chunk = static_cast<uint32_t>(random() % 3 * 4096);
      member.send(header, std::string(header.length, '\xff'));
    }
    member.flush();
  }
  EXPECT_GT(let_in, 20) << refused;
  EXPECT_GT(refused, 20) << let_in;
  good.expect_unharmed();
}

// ----------------------------------------------------------------------------------- other jobs

TEST(AggregatorTrust, AKeyOpensItsOwnJobAlone) {
  const auto node = start_node();
  GoodJob good(node->port());
  const wire::Secret key_of_bad = aggregation::job_key_of(node_key(), kBad);
  // A ticket of the other job, made with the own key.
  HostileMember forger(node->port(), ticket_of(kGood, 1), key_of_bad);
  forger.show_ticket();
  ASSERT_TRUE(forger.say_hello(0));
  EXPECT_EQ(forger.answer(), wire::Refusal::bad_mac);
  // One of the other job's own that was overheard: the handshake is not passed.
  HostileMember listener(node->port(), ticket_of(kGood, 2), key_of_bad);
  listener.show(aggregation::make_ticket(ticket_of(kGood, 2),
                                         aggregation::job_key_of(node_key(), kGood)));
  ASSERT_TRUE(listener.say_hello(0));
  EXPECT_EQ(listener.answer(), wire::Refusal::bad_mac);  // the node's MAC is of another key
  listener.prove();
  EXPECT_FALSE(listener.pass_test());
  EXPECT_TRUE(comes_to_say(*node, "\"refused\":2")) << node->stats_json();
  good.expect_unharmed();
}

// A member of one job speaks of the communicator of another, which has the same number.
TEST(AggregatorTrust, AMemberCanNeitherEndNorHearAnotherJob) {
  const auto node = start_node();
  GoodJob good(node->port());
  HostileMember hostile = member_of(node->port(), kBad, 1);
  ASSERT_TRUE(hostile.join(1));
  ASSERT_TRUE(comes_to_say(*node, "\"job\":6")) << node->stats_json();
  wire::FrameHeader header;
  header.type = wire::FrameType::failure;
  header.slot = static_cast<uint16_t>(Code::aborted);
  header.comm = kCommOfAll;
  hostile.send(header, "");
  header = {};
  header.type = wire::FrameType::ack;
  header.comm = kCommOfAll;
  header.credit = 1 << 20;
  hostile.send(header);
  header = {};
  header.type = wire::FrameType::goodbye;
  hostile.send(header);
  hostile.flush();
  const std::string heard = hostile.hear_all();
  // Challenge, test and what members always hear: no data frame of anybody.
  size_t frames = 0;
  for (size_t at = 64 + 8 * 64 + 48 * 1024; at + wire::kHeaderBytes <= heard.size();) {
    wire::FrameHeader said;
    const auto* bytes = reinterpret_cast<const std::byte*>(heard.data() + at);
    const wire::ConstHeaderBytes head(bytes, wire::kHeaderBytes);
    ASSERT_EQ(wire::decode(head, &said), wire::HeaderError::none);
    EXPECT_NE(said.type, wire::FrameType::data);
    at += wire::kHeaderBytes + said.length;
    ++frames;
  }
  EXPECT_LT(frames, 1000u);
  good.expect_unharmed();
}

// Frames of a later operation as far as the credit goes, all with the same remainder, and then copies of
// the last of them. If each copy were compared with all frames, the other job would be slow all the time.
TEST(AggregatorTrust, NoJobWaitsForTheCopiesThatAnotherSends) {
  constexpr uint32_t kEarly = 65'000;
  constexpr uint32_t kCopies = 200'000;
  const auto node = start_node(options_of_patient_node());
  GoodJob good(node->port());
  const Nanoseconds calm = good.median_time(20, [] {});
  AggregationRank victim(place_of(0, 2, kBad, node->port()));
  ASSERT_TRUE(victim.connect().is_ok());
  ASSERT_TRUE(victim.register_group(kCommOfAll, victim.flat()).is_ok());
  HostileMember hostile = member_of(node->port(), kBad, 1);
  ASSERT_TRUE(hostile.join(1));
  const Nanoseconds attacked = good.median_time(3, [&] {
    wire::FrameHeader header = frame_of(kCommOfAll, 1, 0);
    for (uint32_t i = 0; i < kEarly; ++i) {
      header.chunk = i * 256;
      hostile.send(header);
    }
    header.flags = wire::next_generation(header.flags);
    for (uint32_t i = 0; i < kCopies; ++i) hostile.send(header);
    hostile.flush();
    // Until each of them was taken, and the member was not refused.
    int64_t received = 0;
    do {
      received = figure_of_job(*node, kBad, "bytes_received");
    } while (received >= 0 && received < int64_t{kEarly + kCopies} * 64);
    EXPECT_GT(received, 0) << "the job has ended";
  });
  EXPECT_GT(memory_of_job(*node, kBad), int64_t{kEarly} * 256);
  EXPECT_LT(attacked, 20 * calm) << "calm " << calm << " ns";
  good.expect_unharmed();
}

// Whoever is so far ahead cannot have been given what it needs for that.
TEST(AggregatorTrust, TakesNoFrameOfAnOperationThatIsFartherAheadThanCreditAllows) {
  constexpr uint64_t kWindow = aggregation::kAggregationCreditBytes / wire::kHeaderBytes;
  const auto node = start_node();
  AggregationRank victim(place_of(0, 3, kBad, node->port()));
  ASSERT_TRUE(victim.connect().is_ok());
  ASSERT_TRUE(victim.register_group(kCommOfAll, victim.flat()).is_ok());
  HostileMember hostile = member_of(node->port(), kBad, 1, 3);
  ASSERT_TRUE(hostile.join(1));
  hostile.send(frame_of(kCommOfAll, kWindow - 1, 0));
  hostile.flush();
  EXPECT_TRUE(comes_to_say(*node, "\"ranks_up\":2")) << node->stats_json();
  hostile.send(frame_of(kCommOfAll, kWindow, 0));
  hostile.flush();
  hostile.hear_all();  // the node closed the connection
  EXPECT_TRUE(comes_to_say(*node, "\"ranks_up\":1")) << node->stats_json();
}

// -------------------------------------------------------------------------------------- tickets

TEST(AggregatorTrust, ATicketAloneMakesNoSession) {
  const auto node = start_node();
  HostileMember silent = member_of(node->port(), kBad, 1);
  silent.show_ticket();
  HostileMember halfway = member_of(node->port(), kBad + 1, 2);
  halfway.show_ticket();
  ASSERT_TRUE(halfway.say_hello(0));
  EXPECT_EQ(halfway.answer(), wire::Refusal::none);
  const JsonValue stats = stats_of(*node);
  EXPECT_EQ(stats.at("connections").at("accepted").integer_or(-1), 2);
  EXPECT_TRUE(stats.at("jobs").items().empty()) << node->stats_json();
  halfway.prove();
  EXPECT_TRUE(comes_to_say(*node, "\"job\":7")) << node->stats_json();
  EXPECT_EQ(stats_of(*node).at("jobs").items().size(), 1u);
}

TEST(AggregatorTrust, ATicketIsGoodOnce) {
  const auto node = start_node();
  HostileMember first = member_of(node->port(), kBad, 5);
  ASSERT_TRUE(first.join(0));
  ASSERT_TRUE(comes_to_say(*node, "\"ranks_up\":1")) << node->stats_json();
  for (int again = 1; again <= 3; ++again) {
    HostileMember replayed = member_of(node->port(), kBad, 5);
    replayed.show_ticket();
    ASSERT_TRUE(replayed.say_hello(1));
    EXPECT_EQ(replayed.answer(), wire::Refusal::replayed);
    EXPECT_TRUE(comes_to_say(*node, "\"replayed\":" + std::to_string(again))) << node->stats_json();
  }
  // Two at the same time: the second to prove itself is too late.
  HostileMember one = member_of(node->port(), kBad, 6);
  HostileMember other = member_of(node->port(), kBad, 6);
  one.show_ticket();
  other.show_ticket();
  ASSERT_TRUE(one.say_hello(1) && other.say_hello(1));
  EXPECT_EQ(one.answer(), wire::Refusal::none);
  EXPECT_EQ(other.answer(), wire::Refusal::none);
  one.prove();
  ASSERT_TRUE(one.pass_test());
  other.prove();
  other.pass_test();
  other.hear_all();  // the node closed the connection
  EXPECT_TRUE(comes_to_say(*node, "\"replayed\":4")) << node->stats_json();
  EXPECT_TRUE(comes_to_say(*node, "\"ranks_up\":2")) << node->stats_json();
}

}  // namespace
}  // namespace nezha::testing
