#include "aggregation/protocol/registration.h"

#include <algorithm>

#include "base/clean_text.h"
#include "engine/common/comm_number.h"
#include "wire/little_endian.h"

namespace nezha::aggregation {
namespace {

template <class Number>
void put(std::string* bytes, Number value) {
  std::byte number[sizeof(value)];
  wire::store_le(number, value);
  bytes->append(reinterpret_cast<const char*>(number), sizeof(number));
}

template <class Number = uint32_t>
Number get(std::string_view bytes, size_t at) {
  return wire::load_le<Number>(reinterpret_cast<const std::byte*>(bytes.data()) + at);
}

}  // namespace

std::string encode(const RegistrationRequest& request) {
  std::string bytes;
  put(&bytes, request.comm);
  for (const uint32_t value : {request.members, request.nodes}) put(&bytes, value);
  return bytes;
}

bool decode(std::string_view bytes, uint32_t world, RegistrationRequest* request) {
  if (bytes.size() != kRequestBytes) return false;
  const RegistrationRequest read{get<uint64_t>(bytes, 0), get(bytes, 8), get(bytes, 12)};
  const bool registers = read.members <= world && read.nodes >= 1 && read.nodes < read.members &&
                       read.members - read.nodes >= 2;
  const bool leaves = read.members == 0 && read.nodes == 0;
  const bool sane = read.comm >= engine::CommNumber::kFirstParked && (registers || leaves);
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
  put(&bytes, outcome.is_ok() ? 1U : 0U);
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
