// The bytes of one frame of each type, and what each type's header reads from them.
#include <gtest/gtest.h>

#include <string>

#include "wire/control_headers.h"
#include "wire/message_header.h"

namespace nezha::wire {
namespace {

using Bytes = std::array<std::byte, kHeaderBytes>;

Bytes bytes_of(const FrameHeader& frame) {
  Bytes bytes;
  encode(frame, bytes);
  return bytes;
}

std::string hex_of(const FrameHeader& frame) {
  std::string hex;
  for (const std::byte byte : bytes_of(frame)) {
    hex += "0123456789abcdef"[std::to_integer<int>(byte >> 4)];
    hex += "0123456789abcdef"[std::to_integer<int>(byte & std::byte{15})];
  }
  return hex;
}

FrameHeader travelled(const FrameHeader& frame) {
  FrameHeader arrived;
  EXPECT_EQ(decode(bytes_of(frame), &arrived), HeaderError::none);
  return arrived;
}

// The header arrives as it was, in these bytes.
template <class Header>
void expect_bytes(const Header& header, const std::string& hex) {
  EXPECT_EQ(hex_of(header.to_frame()), hex);
  EXPECT_EQ(Header::from(travelled(header.to_frame())), header);
}

constexpr uint64_t kComm = 0x0506070834353637;
const OpDescriptor kMessage = describe_message(Dtype::int32, 25, 77);

TEST(FrameHeaders, Acknowledgement) {
  FrameHeader frame;
  frame.type = FrameType::ack;
  frame.comm = kComm;
  frame.ack = 3;
  frame.credit = 4096;
  EXPECT_EQ(hex_of(frame),
            "7f4e5a330200" "00000000" "000100010000" "3736353408070605" "000000000000"
            "000000000000" "00000000" "00000000" "03000000" "0010000000000000" "00000000" "0c927037");
}

TEST(FrameHeaders, Goodbye) {
  FrameHeader frame;
  frame.type = FrameType::goodbye;
  EXPECT_EQ(hex_of(frame),
            "7f4e5a330400" "00000000" "000100010000" "0000000000000000" "000000000000"
            "000000000000" "00000000" "00000000" "00000000" "0000000000000000" "00000000" "3dd8a1d8");
}

TEST(FrameHeaders, Failure) {
  expect_bytes(FailureHeader{.comm = kComm, .code = Code::peer_lost, .peer = 2, .ranks = {2, 7},
                             .operation = {{Collective::all_gather, 41, 4096}}},
               "7f4e5a330300" "03000500" "030100010800" "3736353408070605" "2a0000000000"
               "001000000000" "03000000" "00000000" "00000000" "0000000000000000" "00000000" "6ee553f3");
}

TEST(FrameHeaders, FailureAboutNobody) {
  expect_bytes(FailureHeader{.comm = kComm, .code = Code::aborted},
               "7f4e5a330300" "00000700" "000100010000" "3736353408070605" "000000000000"
               "000000000000" "00000000" "00000000" "00000000" "0000000000000000" "00000000" "2bc66e94");
}

TEST(FrameHeaders, Heartbeat) {
  const OpDescriptor op = {.collective = Collective::broadcast, .dtype = Dtype::bfloat16,
                           .op = ReduceOp::max, .algorithm = Algorithm::chain, .root = 9, .count = 1000,
                           .plan = 0x2F303132};
  expect_bytes(HeartbeatHeader{.busy = true, .deaf = true, .progress = HeartbeatHeader::Progress::open,
                               .waits_for = 4, .comm = kComm, .op_seq = 0x0F1011121314, .op = op},
               "7f4e5a330503" "05000100" "010304060900" "3736353408070605" "14131211100f"
               "e80300000000" "00000000" "00000000" "00000000" "0000000000000000" "3231302f" "5e5205e0");
}

TEST(FrameHeaders, HeartbeatOfARankWithoutOperations) {
  expect_bytes(HeartbeatHeader(),
               "7f4e5a330500" "00000000" "000100010000" "0000000000000000" "000000000000"
               "000000000000" "00000000" "00000000" "00000000" "0000000000000000" "00000000" "c505eb46");
}

TEST(FrameHeaders, Reconcile) {
  expect_bytes(ReconcileHeader{{.rail = 1, .lane = 2, .epoch = 0x090A0B0C}, true},
               "7f4e5a330600" "01000200" "000100010000" "0000000000000000" "010000000000"
               "000000000000" "0c0b0a09" "00000000" "00000000" "0000000000000000" "00000000" "2704d6bf");
}

TEST(FrameHeaders, Landed) {
  expect_bytes(LandedHeader{{.rail = 1, .lane = 2, .epoch = 0x090A0B0C}, 0xFFFFFFFE},
               "7f4e5a330700" "01000200" "000100010000" "0000000000000000" "feffffff0000"
               "000000000000" "0c0b0a09" "00000000" "00000000" "0000000000000000" "00000000" "f2004524");
}

TEST(FrameHeaders, Agree) {
  expect_bytes(AgreeHeader{.comm = kComm, .generation = 6, .stage = 3, .wish = AgreeHeader::Wish::answer,
                           .part = AgreeHeader::Part::unheard},
               "7f4e5a330800" "01000400" "000100010000" "3736353408070605" "060000000000"
               "000000000000" "03000000" "00000000" "00000000" "0000000000000000" "00000000" "9b979f56");
}

TEST(FrameHeaders, Reserve) {
  expect_bytes(ReserveHeader{ReserveHeader::Kind::nack, 0x0F1011121314, 0x292A2B2C2D2E},
               "7f4e5a330900" "03000000" "000100010000" "0000000000000000" "14131211100f"
               "2e2d2c2b2a29" "00000000" "00000000" "00000000" "0000000000000000" "00000000" "6fb8dcc2");
}

TEST(FrameHeaders, Rail) {
  expect_bytes(RailHeader{258},
               "7f4e5a330a00" "02010000" "000100010000" "0000000000000000" "000000000000"
               "000000000000" "00000000" "00000000" "00000000" "0000000000000000" "00000000" "02251aaa");
}

TEST(FrameHeaders, Offer) {
  const FrameHeader frame = travelled(MessageHeader::offer(kComm, 5, kMessage, 100));
  EXPECT_EQ(hex_of(frame),
            "7f4e5a330100" "00000000" "0a0600010000" "3736353408070605" "050000000000"
            "190000000000" "00000000" "64000000" "00000000" "0000000000000000" "4d000000" "d6d78c76");
  const MessageHeader header(frame);
  EXPECT_EQ(header.stage(), MessageHeader::Stage::offer);
  EXPECT_EQ(header.number(), 5U);
  EXPECT_TRUE(header.is_whole() && !header.is_announced());
  EXPECT_EQ(header.length(), 100U);
  EXPECT_EQ(header.op(), kMessage);
  EXPECT_EQ(tag_of(header.op()), 77U);
}

TEST(FrameHeaders, Announcement) {
  const FrameHeader frame = travelled(MessageHeader::announce(kComm, 5, kMessage, 4096));
  EXPECT_EQ(hex_of(frame),
            "7f4e5a330100" "00000100" "0a0600010000" "3736353408070605" "050000000000"
            "190000000000" "00100000" "00000000" "00000000" "0000000000000000" "4d000000" "a48a8352");
  const MessageHeader header(frame);
  EXPECT_EQ(header.stage(), MessageHeader::Stage::offer);
  EXPECT_EQ(header.number(), 5U);
  EXPECT_TRUE(header.is_announced() && !header.is_whole());
  EXPECT_EQ(header.chunk_bytes(), 4096U);
}

TEST(FrameHeaders, Accept) {
  const FrameHeader frame = travelled(MessageHeader::accept(kComm, 5, kMessage));
  EXPECT_EQ(hex_of(frame),
            "7f4e5a330100" "01000000" "0a0600010000" "3736353408070605" "050000000000"
            "190000000000" "00000000" "00000000" "00000000" "0000000000000000" "4d000000" "f08bbab8");
  const MessageHeader header(frame);
  EXPECT_EQ(header.stage(), MessageHeader::Stage::accept);
  EXPECT_EQ(header.number(), 5U);
  EXPECT_EQ(header.op(), kMessage);
}

TEST(FrameHeaders, Payload) {
  const FrameHeader frame = travelled(MessageHeader::payload(kComm, 5, kMessage, 3, 4096));
  EXPECT_EQ(hex_of(frame),
            "7f4e5a330100" "02000000" "0a0600010000" "3736353408070605" "050000000000"
            "190000000000" "03000000" "00100000" "00000000" "0000000000000000" "4d000000" "838353de");
  const MessageHeader header(frame);
  EXPECT_EQ(header.stage(), MessageHeader::Stage::payload);
  EXPECT_EQ(header.number(), 5U);
  EXPECT_TRUE(header.is_chunk());
  EXPECT_EQ(header.chunk(), 3U);
  EXPECT_EQ(header.length(), 4096U);
}

TEST(FrameHeaders, Drained) {
  const FrameHeader frame = travelled(MessageHeader::drained(kComm, 123456, kMessage));
  EXPECT_EQ(hex_of(frame),
            "7f4e5a330100" "03000000" "0a0600010000" "3736353408070605" "40e201000000"
            "190000000000" "00000000" "00000000" "00000000" "0000000000000000" "4d000000" "49c9336b");
  const MessageHeader header(frame);
  EXPECT_EQ(header.stage(), MessageHeader::Stage::drained);
  EXPECT_EQ(header.drained(), 123456U);
}

}  // namespace
}  // namespace nezha::wire
