#include "aggregation/protocol/round_message.h"

#include <array>
#include <bit>
#include <cstddef>
#include <span>

#include "wire/little_endian.h"

namespace nezha::aggregation {
namespace {

using rails::AggregationShares;

constexpr size_t kAtReport = 40;
constexpr size_t kTimesBytes = 16;
constexpr size_t kBytes = kAtReport + AggregationShares::kClasses * kTimesBytes;

void store(std::byte* at, float value) { wire::store_le(at, std::bit_cast<uint32_t>(value)); }
float load(const std::byte* at) { return std::bit_cast<float>(wire::load_le<uint32_t>(at)); }

}  // namespace

std::string encode(const RoundMessage& message) {
  std::array<std::byte, kBytes> bytes;
  std::byte* const at = bytes.data();
  wire::store_le(at, message.session);
  wire::store_le(at + 4, static_cast<uint32_t>(message.stage));
  wire::store_le(at + 8, uint32_t{message.patient});
  wire::store_le(at + 12, static_cast<uint32_t>(message.node));
  wire::store_le(at + 16, message.comm);
  wire::store_le(at + 24, message.topology);
  wire::store_le(at + 32, std::bit_cast<uint64_t>(message.seconds));
  std::byte* row = at + kAtReport;
  for (const AggregationShares::Times& times : message.report.times) {
    store(row, times.hosts);
    store(row + 4, times.node);
    store(row + 8, times.both_hosts);
    store(row + 12, times.both_node);
    row += kTimesBytes;
  }
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

bool decode(std::string_view bytes, RoundMessage* message) {
  if (bytes.size() != kBytes) return false;
  const auto* const at = reinterpret_cast<const std::byte*>(bytes.data());
  const auto stage = wire::load_le<uint32_t>(at + 4);
  const auto patient = wire::load_le<uint32_t>(at + 8);
  if (stage > static_cast<uint32_t>(SaidStage::joined) || patient > 1) return false;
  message->session = wire::load_le<uint32_t>(at);
  message->stage = static_cast<SaidStage>(stage);
  message->patient = patient == 1;
  message->node = static_cast<int32_t>(wire::load_le<uint32_t>(at + 12));
  message->comm = wire::load_le<uint64_t>(at + 16);
  message->topology = wire::load_le<uint64_t>(at + 24);
  message->seconds = std::bit_cast<double>(wire::load_le<uint64_t>(at + 32));
  const std::byte* row = at + kAtReport;
  for (AggregationShares::Times& times : message->report.times) {
    times = {load(row), load(row + 4), load(row + 8), load(row + 12)};
    row += kTimesBytes;
  }
  return true;
}

}  // namespace nezha::aggregation
