// Sizes, offsets and indices that no honest peer sends: zero, one beyond a limit, 2^31, 2^32, 2^63, 2^64
// and what wraps around when something is added. Wherever bytes from outside hold a number, such a number
// is refused or without effect, and never decides how much memory is taken or touched.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "base/blob.h"
#include "base/config.h"
#include "base/ip_prefix.h"
#include "base/log.h"
#include "context/records.h"
#include "redis/resp.h"
#include "rendezvous/address.h"
#include "rendezvous/tcp_protocol.h"
#include "support/fake_world.h"
#include "wire/crc32c.h"
#include "wire/frame.h"
#include "wire/handshake.h"
#include "wire/little_endian.h"

namespace nezha::testing {
namespace {

// The hostile numbers that fit into so many bits.
std::vector<uint64_t> numbers(int bits) {
  std::vector<uint64_t> all = {0, 1, 2};
  for (const int power : {15, 16, 20, 26, 31, 32, 62, 63}) {
    const uint64_t at = uint64_t{1} << power;
    all.insert(all.end(), {at - 1, at, at + 1});
  }
  const uint64_t top = std::numeric_limits<uint64_t>::max();
  // Plus a header, a count of elements or an alignment, these are small again.
  for (const uint64_t below : {0, 1, 3, 7, 63, 64, 255, 4095}) all.push_back(top - below);
  const uint64_t most = bits == 64 ? top : (uint64_t{1} << bits) - 1;
  std::vector<uint64_t> fitting;
  for (const uint64_t value : all) {
    const uint64_t cut = value & most;
    if (std::find(fitting.begin(), fitting.end(), cut) == fitting.end()) fitting.push_back(cut);
  }
  return fitting;
}

// ------------------------------------------------------------------------------------- frames

constexpr uint32_t kComm = 3;
constexpr size_t kElements = 5000;

struct FrameField {
  const char* name;
  int bits;
  void (*set)(wire::FrameHeader&, uint64_t);
};

template <auto kMember>
void set_member(wire::FrameHeader& header, uint64_t value) {
  header.*kMember = static_cast<std::remove_reference_t<decltype(header.*kMember)>>(value);
}
template <auto kMember>
void set_op(wire::FrameHeader& header, uint64_t value) {
  header.op.*kMember = static_cast<std::remove_reference_t<decltype(header.op.*kMember)>>(value);
}

constexpr FrameField kFrameFields[] = {
    {"length", 32, set_member<&wire::FrameHeader::length>},
    {"stage", 16, set_member<&wire::FrameHeader::stage>},
    {"slot", 16, set_member<&wire::FrameHeader::slot>},
    {"comm", 32, set_member<&wire::FrameHeader::comm>},
    {"chunk", 32, set_member<&wire::FrameHeader::chunk>},
    {"op_seq", 64, set_member<&wire::FrameHeader::op_seq>},
    {"ack", 32, set_member<&wire::FrameHeader::ack>},
    {"credit", 64, set_member<&wire::FrameHeader::credit>},
    {"count", 64, set_op<&wire::OpDescriptor::count>},
    {"root", 16, set_op<&wire::OpDescriptor::root>},
    {"plan", 32, set_op<&wire::OpDescriptor::plan>},
};

// The bytes of a header whose length no encoder of ours would be asked for.
std::array<std::byte, wire::kHeaderBytes> bytes_of(const wire::FrameHeader& header) {
  std::array<std::byte, wire::kHeaderBytes> bytes;
  wire::encode(header, bytes);
  return bytes;
}

// Every type of frame refuses a payload beyond its own limit, whatever else stands there.
size_t lengths_of_frames() {
  const std::pair<wire::FrameType, uint64_t> limits[] = {
      {wire::FrameType::data, wire::kPayloadBytesMax},
      {wire::FrameType::ack, 0},
      {wire::FrameType::failure, wire::kFailureBytesMax},
      {wire::FrameType::goodbye, 0},
      {wire::FrameType::heartbeat, 0},
      {wire::FrameType::reconcile, 0},
      {wire::FrameType::landed, 0},
      {wire::FrameType::agree, wire::kAgreeBytesMax},
      {wire::FrameType::reserve, 0}};
  size_t cases = 0;
  for (const auto& [type, limit] : limits) {
    std::vector<uint64_t> lengths = numbers(32);
    lengths.insert(lengths.end(), {limit, limit + 1});
    for (const uint64_t length : lengths) {
      wire::FrameHeader header;
      header.type = type;
      header.slot = type == wire::FrameType::failure ? 1 : 0;
      header.stage = type == wire::FrameType::reserve ? 1 : 0;
      header.length = static_cast<uint32_t>(length);
      wire::FrameHeader read;
      const wire::HeaderError error = wire::decode(bytes_of(header), &read);
      EXPECT_EQ(error == wire::HeaderError::too_long, length > limit)
          << "type " << static_cast<int>(type) << ", length " << length;
      ++cases;
    }
  }
  return cases;
}

// The first frame that rank 1 waits for, with one number of somebody else's choice.
wire::FrameHeader awaited_frame() {
  wire::FrameHeader header;
  header.comm = kComm;
  header.length = 4096;
  header.op.count = kElements;
  return header;
}

// Rank 1 is in an all_reduce (or in a receive) and rank 0's connection brings the frame. Its memory stays
// within the credit, its buffer keeps its borders, and the operation does not succeed by that frame.
// True when the frame cost rank 0 its connection.
bool meet(const wire::FrameHeader& frame, bool message, const std::string& name) {
  SCOPED_TRACE(name);
  log::set_level(log::Level::error);
  FakeWorldOptions options;
  options.comm = kComm;
  options.credit_bytes = 64 * 1024;
  FakeWorld world(options);
  constexpr size_t kBorder = 64;
  constexpr float kMark = 12345;
  std::vector<float> in(kElements, 1);
  std::vector<float> out(kElements + 2 * kBorder, kMark);
  engine::Work work;
  Status submitted;
  if (message) {
    engine::MessageRequest request;
    request.is_send = false;
    request.buffer = out.data() + kBorder;
    request.count = kElements;
    request.dtype = Dtype::float32;
    request.peer = 0;
    submitted = world.engine(1).submit_message(world.group(1), request, work);
  } else {
    engine::OpRequest request;
    request.algorithm = Algorithm::ring;
    request.in = in.data();
    request.out = out.data() + kBorder;
    request.count = kElements;
    submitted = world.engine(1).submit(world.group(1), request, work);
  }
  EXPECT_TRUE(submitted.is_ok()) << submitted.to_string();
  const uint64_t before = world.engine(1).pool().bytes_in_use();
  world.link(0, 1, 0).inject(1, frame);
  for (int i = 0; i < 4; ++i) {
    world.link(0, 1, 0).deliver(1);
    world.run_engines();
  }
  // A buffer is rounded up to a power of two, and one frame may be larger than the credit.
  const uint64_t allowed = 2 * (options.credit_bytes + wire::kHeaderBytes) +
                           (frame.length > options.credit_bytes ? 2 * frame.length : 0);
  EXPECT_LE(world.engine(1).pool().bytes_in_use(), before + allowed);
  EXPECT_FALSE(work.is_done() && work.status().is_ok()) << "one frame completed the operation";
  for (size_t i = 0; i < kBorder; ++i) {
    EXPECT_EQ(out[i], kMark);
    EXPECT_EQ(out[out.size() - 1 - i], kMark);
  }
  const bool closed = !world.engine(1).peers()[0]->links().front().connection->is_up();
  world.engine(1).failures().fail(world.group(1), error(Code::aborted, "the test ended"), false);
  world.run_engines();
  return closed;
}

size_t frames_at_an_engine(bool message) {
  size_t cases = 0;
  size_t closed = 0;
  for (const FrameField& field : kFrameFields) {
    for (const uint64_t value : numbers(field.bits)) {
      wire::FrameHeader frame = awaited_frame();
      if (message) {
        frame.op.collective = Collective::send_recv;
        frame.op.dtype = Dtype::float32;
        // An announced message of the right size.
        frame.length = 0;
        frame.slot = 1;
        frame.chunk = 8192;
      }
      field.set(frame, value);
      if (frame.length > wire::kPayloadBytesMax) continue;  // lengths_of_frames()
      if (frame.length > 1024 * 1024) frame.length = 1024 * 1024;
      closed += meet(frame, message, std::string(field.name) + " = " + std::to_string(value));
      ++cases;
    }
  }
  // Some are impossible at once; others are merely early, late, or of a program that differs.
  EXPECT_GT(closed, 10u);
  EXPECT_LT(closed, cases);
  return cases;
}

TEST(HostileLengths, OfEveryFrameType) { EXPECT_GE(lengths_of_frames(), 100u); }
TEST(HostileLengths, OfACollectivesFrames) { EXPECT_GE(frames_at_an_engine(false), 150u); }
TEST(HostileLengths, OfAMessagesFrames) { EXPECT_GE(frames_at_an_engine(true), 150u); }

// ---------------------------------------------------------------------------------- handshake

size_t fields_of_a_hello() {
  static constexpr std::array<uint16_t, 4> kRails = {3, 2, 2, 2};
  const wire::Expected expected{
      .job = 77, .world_size = 4, .my_rank = 1, .rail_counts = kRails, .lanes = 4};
  const auto with = [](auto change) {
    wire::Hello hello;
    hello.job = 77;
    hello.world_size = 4;
    hello.dialer_rank = 0;
    hello.acceptor_rank = 1;
    change(hello);
    return hello;
  };
  size_t cases = 0;
  const auto check = [&](const wire::Hello& hello, bool sound, uint64_t value) {
    EXPECT_EQ(wire::check_hello(hello, expected) == wire::Refusal::none, sound) << value;
    ++cases;
  };
  for (const uint64_t value : numbers(64)) {
    check(with([&](wire::Hello& hello) { hello.job = value; }), value == 77, value);
  }
  for (const uint64_t value : numbers(32)) {
    const auto number = static_cast<uint32_t>(value);
    check(with([&](wire::Hello& h) { h.world_size = number; }), value == 4, value);
    check(with([&](wire::Hello& h) { h.dialer_rank = number; }), value < 4 && value != 1, value);
    check(with([&](wire::Hello& h) { h.acceptor_rank = number; }), value == 1, value);
  }
  for (const uint64_t value : numbers(16)) {
    const auto number = static_cast<uint16_t>(value);
    check(with([&](wire::Hello& h) { h.acceptor_rail = number; }), value < 2, value);
    check(with([&](wire::Hello& h) { h.dialer_rail = number; }), value < 3, value);
    check(with([&](wire::Hello& h) { h.lane = number; }), value < 4, value);
  }
  return cases;
}

TEST(HostileLengths, OfAHandshake) { EXPECT_GE(fields_of_a_hello(), 100u); }

// -------------------------------------------------------------------------------------- stores

template <class Bytes>
void put(Bytes& bytes, size_t at, size_t width, uint64_t value) {
  for (size_t i = 0; i < width; ++i) bytes[at + i] = static_cast<char>(value >> (8 * i) & 0xFF);
}

size_t requests_at_a_store() {
  size_t cases = 0;
  for (const uint64_t key : numbers(16)) {
    for (const uint64_t value : numbers(32)) {
      rendezvous::MemoryBudget budget{4096, 0};
      rendezvous::RequestReader reader(budget);
      EXPECT_EQ(reader.feed(rendezvous::kMagic), rendezvous::RequestReader::Outcome::greeted);
      auto head = rendezvous::encode_request_head(rendezvous::Operation::set, 1, 1);
      put(head, 2, 2, key);
      put(head, 4, 4, value);
      const auto outcome = reader.feed({head.data(), head.size()});
      const bool sound = key >= 1 && key <= rendezvous::kKeyBytesMax &&
                         value <= rendezvous::kValueBytesMax;
      EXPECT_EQ(outcome, sound ? rendezvous::RequestReader::Outcome::more
                               : rendezvous::RequestReader::Outcome::refused)
          << key << " " << value;
      // The announced size has taken nothing yet.
      EXPECT_EQ(budget.used, 0u);
      if (sound) {
        EXPECT_EQ(reader.wanted(), key + value);
      }
      ++cases;
    }
  }
  for (const uint64_t value : numbers(32)) {
    std::array<char, rendezvous::kAnswerHeadBytes> head{};
    put(head, 4, 4, value);
    EXPECT_EQ(rendezvous::decode_answer_head(head).is_ok(), value <= rendezvous::kValueBytesMax);
    ++cases;
  }
  return cases;
}

size_t replies_of_redis() {
  size_t cases = 0;
  std::vector<std::string> sizes = {"-2", "-9223372036854775808", "18446744073709551616", "+1", "0x10",
                                    "1e3", " 1", "1 ", "", "--1", "99999999999999999999999999",
                                    "-1x", "1\n", "00000000000000000000001"};
  for (const uint64_t value : numbers(64)) sizes.push_back(std::to_string(value));
  for (const std::string& size : sizes) {
    const bool number = size.find_first_not_of("0123456789") == std::string::npos && !size.empty();
    const bool sound = number && size.size() <= 23 &&
                       std::stold(size) <= static_cast<long double>(rendezvous::kValueBytesMax);
    rendezvous::RespReply reply;
    const auto outcome = rendezvous::parse_reply("$" + size + "\r\n", &reply);
    EXPECT_EQ(outcome == rendezvous::RespOutcome::refused, !sound) << size;
    EXPECT_EQ(reply.text, "");
    ++cases;
  }
  return cases;
}

TEST(HostileLengths, OfAStoresRequests) { EXPECT_GE(requests_at_a_store(), 100u); }
TEST(HostileLengths, OfRedisReplies) { EXPECT_GE(replies_of_redis(), 30u); }

// ------------------------------------------------------------------------------------- records

size_t texts_of_a_blob() {
  size_t cases = 0;
  for (const uint64_t length : numbers(64)) {
    for (const size_t there : {0, 1, 7, 8, 100}) {
      const std::string bytes = BlobWriter().number(length).take() + std::string(there, 'x');
      BlobReader reader(bytes);
      EXPECT_EQ(reader.text().size(), length <= there ? length : 0);
      EXPECT_EQ(reader.ok(), length <= there) << length;
      ++cases;
    }
  }
  return cases;
}

// A JoinRecord, number by number; the hostile one stands in the place of the `which`-th.
std::string join_record(int which, uint64_t value, double speed = 1e9) {
  int next = 0;
  const auto number = [&](uint64_t honest) { return next++ == which ? value : honest; };
  BlobWriter writer;
  writer.number(number(7)).text("nonce").text("agreed").number(number(0)).text("host");
  writer.number(number(1)).text("eth0").text("10.0.0.1");
  for (const uint64_t honest : {24, 1500}) writer.number(number(honest));
  return writer.real(speed).text("ofi").text("net").text("where").text("").take();
}

// The ranges of: version, rank, number of rails, prefix length, MTU.
constexpr std::pair<uint64_t, uint64_t> kJoinRanges[] = {
    {7, 7}, {0, 65535}, {1, 1}, {0, 32}, {0, UINT32_MAX}};

size_t records_in_a_store() {
  size_t cases = 0;
  for (int which = 0; which < static_cast<int>(std::size(kJoinRanges)); ++which) {
    for (const uint64_t value : numbers(64)) {
      context::JoinRecord record;
      const auto [low, high] = kJoinRanges[which];
      EXPECT_EQ(context::decode(join_record(which, value), &record), value >= low && value <= high)
          << "number " << which << " is " << value;
      ++cases;
    }
  }
  for (const uint64_t value : numbers(64)) {
    const auto head = BlobWriter().number(7).text("s").number(1).text("").number(value).take();
    context::WelcomeRecord record;
    EXPECT_EQ(context::decode(head, &record), value >= 1 && value <= 65535) << value;
    const auto ranks = BlobWriter().number(7).number(0).number(value).take();
    context::WelcomePart part;
    EXPECT_EQ(context::decode(ranks, &part), value == 0) << value;
    const auto first = BlobWriter().number(7).number(value).number(0).take();
    EXPECT_EQ(context::decode(first, &part), value <= 65535) << value;
    const auto code = BlobWriter().number(value).number(0).text("").number(0).take();
    context::ReportRecord report;
    EXPECT_EQ(context::decode(code, &report), value <= static_cast<uint64_t>(Code::internal)) << value;
    const auto peer = BlobWriter().number(5).number(value).text("").number(0).take();
    EXPECT_EQ(context::decode(peer, &report), value <= 65535) << value;
    const auto count = BlobWriter().number(5).number(0).text("").number(value).take();
    EXPECT_EQ(context::decode(count, &report), value == 0) << value;
    cases += 4;
  }
  for (const double speed : {-1.0, -0.5, double{INFINITY}, -double{INFINITY}, double{NAN}}) {
    context::JoinRecord record;
    EXPECT_FALSE(context::decode(join_record(-1, 0, speed), &record)) << speed;
    ++cases;
  }
  return cases;
}

TEST(HostileLengths, OfABlobsTexts) { EXPECT_GE(texts_of_a_blob(), 100u); }
TEST(HostileLengths, OfRecordsInAStore) { EXPECT_GE(records_in_a_store(), 200u); }

// ----------------------------------------------------------------------------- users' own texts

size_t numbers_in_texts() {
  size_t cases = 0;
  for (const uint64_t value : numbers(64)) {
    const std::string text = std::to_string(value);
    for (const char unit : {'K', 'M', 'G'}) {
      const int shift = unit == 'K' ? 10 : unit == 'M' ? 20 : 30;
      const auto bytes = parse_bytes(text + unit);
      EXPECT_EQ(bytes.is_ok(), value <= (UINT64_MAX >> shift)) << text << unit;
      ++cases;
    }
    EXPECT_EQ(parse_port_range("1-" + text).is_ok(), value > 1 && value <= 65535) << text;
    const auto prefix = parse_ip_prefix("10.0.0.0/" + text);
    EXPECT_EQ(prefix.has_value(), value <= 32) << text;
    EXPECT_EQ(parse_ip_prefix("fd00::/" + text).has_value(), value <= 128) << text;
    EXPECT_EQ(rendezvous::parse_store_address("tcp://h:" + text, false).is_ok(),
              value >= 1 && value <= 65535);
    cases += 4;
    ConfigInputs inputs;
    inputs.code = "streams_per_rail=" + text + "\n";
    EXPECT_EQ(load_config(inputs).is_ok(), value >= 1 && value <= 16) << text;
    ++cases;
  }
  // A length that did not come through the parser reads nothing beyond the address.
  for (const int length : {-1, 33, 129, 255, 1 << 20, INT_MAX, INT_MIN}) {
    auto prefix = parse_ip_prefix("10.0.0.0");
    prefix->length = length;
    EXPECT_FALSE(prefix->contains(*parse_ip_prefix("10.0.0.0"))) << length;
    ++cases;
  }
  return cases;
}

TEST(HostileLengths, OfUsersTexts) { EXPECT_GE(numbers_in_texts(), 100u); }

// The figure that the project promises, of cases that need no engine; those with one come on top.
TEST(HostileLengths, AreAtLeastFiveHundred) {
  EXPECT_GE(lengths_of_frames() + fields_of_a_hello() + replies_of_redis() + texts_of_a_blob() +
                records_in_a_store() + numbers_in_texts(),
            500u);
}

}  // namespace
}  // namespace nezha::testing
