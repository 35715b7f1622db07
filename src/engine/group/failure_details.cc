#include "engine/group/failure_details.h"

#include <limits>
#include <optional>
#include <string_view>
#include <utility>

namespace nezha::engine {
namespace {

constexpr size_t kRanksInFrame = 2;

bool fits_a_frame(const std::vector<int>& ranks) {
  for (const int rank : ranks) {
    if (rank < 0 || rank >= std::numeric_limits<uint16_t>::max()) return false;
  }
  return ranks.size() <= kRanksInFrame;
}

uint16_t rank_field(const std::vector<int>& ranks, size_t index) {
  return index < ranks.size() ? static_cast<uint16_t>(ranks[index] + 1) : uint16_t{0};
}

std::optional<Collective> collective_called(std::string_view name) {
  for (size_t i = 0; i < kCollectiveCount; ++i) {
    if (name_of(static_cast<Collective>(i)) == name) return static_cast<Collective>(i);
  }
  return std::nullopt;
}

}  // namespace

std::string activity_of(const Group& group) {
  const auto oldest = group.collectives->oldest();
  if (!oldest) return "between operations";
  return "in " + std::string(name_of(oldest->op.collective)) + " #" + std::to_string(oldest->op_seq) +
         " of " + std::to_string(oldest->bytes) + " bytes";
}

ErrorDetails details_of(const Group& group, const std::optional<OpenCall>& call, std::vector<int> ranks) {
  ErrorDetails details;
  details.ranks = std::move(ranks);
  details.communicator = group.comm;
  if (!call) return details;
  details.operation = name_of(call->op.collective);
  details.number = static_cast<int64_t>(call->op_seq);
  details.bytes = static_cast<int64_t>(call->bytes);
  return details;
}

ErrorDetails details_of_message(const Group& group, bool is_send, const wire::OpDescriptor& op,
                                std::vector<int> ranks) {
  ErrorDetails details;
  details.ranks = std::move(ranks);
  details.communicator = group.comm;
  details.operation = is_send ? "send" : "recv";
  details.bytes = static_cast<int64_t>(op.count * dtype_size(op.dtype));
  return details;
}

void write_details(const Status& why, wire::FrameHeader& header) {
  if (why.details == nullptr) return;
  const ErrorDetails& known = *why.details;
  if (fits_a_frame(known.ranks)) {
    header.stage = rank_field(known.ranks, 0);
    header.op.root = rank_field(known.ranks, 1);
  }
  const auto collective = collective_called(known.operation);
  if (!collective || known.number < 0) return;
  header.op_seq = static_cast<uint64_t>(known.number) + 1;
  header.op.collective = *collective;
  header.op.count = static_cast<uint64_t>(known.bytes);
}

ErrorDetails read_details(const wire::FrameHeader& header, size_t members) {
  ErrorDetails details;
  details.communicator = header.comm;
  for (const uint16_t field : {header.stage, header.op.root}) {
    if (field == 0) break;
    if (field > members) return details;
    details.ranks.push_back(field - 1);
  }
  constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  if (header.op_seq == 0 || header.op_seq > kMost || header.op.count > kMost) return details;
  details.operation = name_of(header.op.collective);
  details.number = static_cast<int64_t>(header.op_seq - 1);
  details.bytes = static_cast<int64_t>(header.op.count);
  return details;
}

}  // namespace nezha::engine
