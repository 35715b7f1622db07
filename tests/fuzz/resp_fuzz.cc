// What a Redis server, or whoever stands in its place, may answer: any bytes, in any pieces.
#include <string_view>

#include "base/check.h"
#include "fuzz/fuzz.h"
#include "redis/resp.h"

namespace nezha::rendezvous {
namespace {

void check(std::string_view bytes) {
  RespReply reply;
  const RespOutcome outcome = parse_reply(bytes, &reply);
  if (outcome != RespOutcome::reply) {
    NEZHA_CHECK(reply.text.empty() && reply.kind == RespReply::Kind::nothing);
    return;
  }
  NEZHA_CHECK(reply.text.size() < bytes.size() && reply.text.size() <= kReplyBytesMax);
  // The same verdict however it arrives: no part of a reply is one, and nothing may follow it.
  for (size_t size = 0; size < bytes.size(); ++size) {
    NEZHA_CHECK(parse_reply(bytes.substr(0, size), &reply) == RespOutcome::more);
  }
  NEZHA_CHECK(parse_reply(std::string(bytes) + "+", &reply) == RespOutcome::refused);
}

}  // namespace
}  // namespace nezha::rendezvous

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace nezha::rendezvous;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  check(input);
  // Random bytes seldom begin and end like a reply.
  if (input.empty()) return 0;
  const char mark = "+-:$"[static_cast<unsigned char>(input.front()) % 4];
  const std::string line = mark + std::string(input.substr(1)) + "\r\n";
  check(line);
  const std::string body(input.substr(1));
  check("$" + std::to_string(body.size()) + "\r\n" + body + "\r\n");
  return 0;
}
