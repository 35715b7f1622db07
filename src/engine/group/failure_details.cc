#include "engine/group/failure_details.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

namespace nezha::engine {
namespace {

bool fits_a_frame(const std::vector<int>& ranks) {
  for (const int rank : ranks) {
    if (rank < 0 || rank >= std::numeric_limits<uint16_t>::max()) return false;
  }
  return ranks.size() <= wire::FailureHeader().ranks.size();
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

void write_details(const Status& why, wire::FailureHeader& header) {
  if (why.details == nullptr) return;
  const ErrorDetails& known = *why.details;
  if (fits_a_frame(known.ranks)) std::copy(known.ranks.begin(), known.ranks.end(), header.ranks.begin());
  const auto collective = collective_called(known.operation);
  if (!collective || known.number < 0) return;
  header.operation = {*collective, static_cast<uint64_t>(known.number),
                      static_cast<uint64_t>(known.bytes)};
}

ErrorDetails read_details(const wire::FailureHeader& header, size_t members) {
  ErrorDetails details;
  details.communicator = header.comm;
  for (const int rank : header.ranks) {
    if (rank < 0) break;
    if (static_cast<size_t>(rank) >= members) return details;
    details.ranks.push_back(rank);
  }
  constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  const auto& operation = header.operation;
  if (!operation || operation->number >= kMost || operation->bytes > kMost) return details;
  details.operation = name_of(operation->collective);
  details.number = static_cast<int64_t>(operation->number);
  details.bytes = static_cast<int64_t>(operation->bytes);
  return details;
}

}  // namespace nezha::engine
