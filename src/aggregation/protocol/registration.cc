#include "aggregation/protocol/registration.h"

#include <algorithm>

#include "base/clean_text.h"
#include "engine/comm_number.h"
#include "wire/little_endian.h"

namespace nezha::aggregation {
namespace {

// Communicators from here on may be spoken of before they are made (engine/engine.h).
constexpr uint32_t kFirstComm = 0x80000000;

void put(std::string* bytes, uint32_t value) {
  std::byte four[sizeof(value)];
  wire::store_le(four, value);
  bytes->append(reinterpret_cast<const char*>(four), sizeof(four));
}

uint32_t get(std::string_view bytes, size_t at) {
  return wire::load_le<uint32_t>(reinterpret_cast<const std::byte*>(bytes.data()) + at);
}

}  // namespace

std::string encode(const RegistrationRequest& request) {
  std::string bytes;
  for (const uint32_t value : {request.comm, request.members, request.nodes, 0U}) put(&bytes, value);
  return bytes;
}

bool decode(std::string_view bytes, uint32_t world, RegistrationRequest* request) {
  if (bytes.size() != kRequestBytes) return false;
  const RegistrationRequest read{get(bytes, 0), get(bytes, 4), get(bytes, 8)};
  const bool registers = read.members <= world && read.nodes >= 1 && read.nodes < read.members &&
                       read.members - read.nodes >= 2;
  const bool leaves = read.members == 0 && read.nodes == 0;
  const bool sane = read.comm >= kFirstComm && (registers || leaves) && get(bytes, 12) == 0;
  if (sane) *request = read;
  return sane;
}

std::string encode(const MemberList& list) {
  std::string bytes;
  for (size_t i = 0; i < list.members.size(); ++i) {
    put(&bytes, static_cast<uint32_t>(list.members[i]));
    put(&bytes, static_cast<uint32_t>(list.parents[i]));
  }
  return bytes;
}

bool decode(std::string_view bytes, const RegistrationRequest& request, uint32_t world,
            MemberList* list) {
  if (bytes.size() != request.members * kMemberEntryBytes) return false;
  MemberList read;
  std::vector<bool> seen(world, false);
  for (size_t i = 0; i < request.members; ++i) {
    const uint32_t member = get(bytes, i * kMemberEntryBytes);
    const auto parent = static_cast<int32_t>(get(bytes, i * kMemberEntryBytes + 4));
    if (member >= world || seen[member] || parent < -1 ||
        parent >= static_cast<int32_t>(request.members)) {
      return false;
    }
    seen[member] = true;
    read.members.push_back(static_cast<int>(member));
    read.parents.push_back(parent);
  }
  *list = std::move(read);
  return true;
}

std::string encode_reply(const Status& outcome) {
  std::string bytes;
  put(&bytes, outcome.is_ok() ? 1 : 0);
  bytes += outcome.message().substr(0, kReplyBytes - bytes.size() - 1);
  bytes.resize(kReplyBytes, '\0');
  return bytes;
}

Status decode_reply(std::string_view bytes) {
  if (bytes.size() != kReplyBytes || get(bytes, 0) > 1) {
    return error(Code::internal, "an aggregation node's answer of %zu bytes is malformed; are this "
                 "rank and the node of the same version?", bytes.size());
  }
  if (get(bytes, 0) == 1) return Status::ok();
  const std::string_view text = bytes.substr(4);
  return error(Code::unsupported, "the aggregation node refused: %s",
               cleaned(text.substr(0, text.find('\0')), kReplyBytes).c_str());
}

}  // namespace nezha::aggregation
