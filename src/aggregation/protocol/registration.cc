#include "aggregation/protocol/registration.h"

#include <algorithm>

#include "wire/little_endian.h"

namespace nezha::wire {
namespace {

// Communicators from here on may be spoken of before they are made (engine/engine.h).
constexpr uint32_t kFirstComm = 0x80000000;

void put(std::string* bytes, uint32_t value) {
  std::byte four[sizeof(value)];
  store_le(four, value);
  bytes->append(reinterpret_cast<const char*>(four), sizeof(four));
}

uint32_t get(std::string_view bytes, size_t at) {
  return load_le<uint32_t>(reinterpret_cast<const std::byte*>(bytes.data()) + at);
}

}  // namespace

std::string encode(const Order& order) {
  std::string bytes;
  for (const uint32_t value : {order.comm, order.members, order.hubs, 0U}) put(&bytes, value);
  return bytes;
}

bool decode(std::string_view bytes, uint32_t world, Order* order) {
  if (bytes.size() != kOrderBytes) return false;
  const Order read{get(bytes, 0), get(bytes, 4), get(bytes, 8)};
  const bool enlists = read.members <= world && read.hubs >= 1 && read.hubs < read.members &&
                       read.members - read.hubs >= 2;
  const bool leaves = read.members == 0 && read.hubs == 0;
  const bool sane = read.comm >= kFirstComm && (enlists || leaves) && get(bytes, 12) == 0;
  if (sane) *order = read;
  return sane;
}

std::string encode(const Roll& roll) {
  std::string bytes;
  for (size_t i = 0; i < roll.members.size(); ++i) {
    put(&bytes, static_cast<uint32_t>(roll.members[i]));
    put(&bytes, static_cast<uint32_t>(roll.parents[i]));
  }
  return bytes;
}

bool decode(std::string_view bytes, const Order& order, uint32_t world, Roll* roll) {
  if (bytes.size() != order.members * kRollEntryBytes) return false;
  Roll read;
  std::vector<bool> seen(world, false);
  for (size_t i = 0; i < order.members; ++i) {
    const uint32_t member = get(bytes, i * kRollEntryBytes);
    const auto parent = static_cast<int32_t>(get(bytes, i * kRollEntryBytes + 4));
    if (member >= world || seen[member] || parent < -1 ||
        parent >= static_cast<int32_t>(order.members)) {
      return false;
    }
    seen[member] = true;
    read.members.push_back(static_cast<int>(member));
    read.parents.push_back(parent);
  }
  *roll = std::move(read);
  return true;
}

std::string encode_answer(const Status& outcome) {
  std::string bytes;
  put(&bytes, outcome.is_ok() ? 1 : 0);
  bytes += outcome.message().substr(0, kAnswerBytes - bytes.size() - 1);
  bytes.resize(kAnswerBytes, '\0');
  return bytes;
}

Status decode_answer(std::string_view bytes) {
  if (bytes.size() != kAnswerBytes || get(bytes, 0) > 1) {
    return error(Code::internal, "an aggregation node's answer of %zu bytes is malformed; are this "
                 "rank and the node of the same version?", bytes.size());
  }
  if (get(bytes, 0) == 1) return Status::ok();
  const std::string_view text = bytes.substr(4);
  return error(Code::unsupported, "the aggregation node refused: %s",
               std::string(text.substr(0, text.find('\0'))).c_str());
}

}  // namespace nezha::wire
