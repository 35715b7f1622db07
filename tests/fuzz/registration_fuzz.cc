// What an aggregation node is told before and after it knows who speaks: tickets, orders and rolls,
// answers, topologies; and the text by which ranks get their job's key: any bytes. What is understood is
// sound, and comes back as it was.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "aggregation/protocol/registration.h"
#include "aggregation/protocol/ticket.h"
#include "aggregation/topology.h"
#include "base/check.h"
#include "fuzz/fuzz.h"
#include "wire/little_endian.h"

namespace nezha {
namespace {

constexpr uint32_t kWorld = 40;

void check_ticket(std::string_view bytes) {
  aggregation::TicketBytes ticket{};
  if (!bytes.empty()) std::memcpy(ticket.data(), bytes.data(), std::min(bytes.size(), ticket.size()));
  const wire::Secret key = wire::secret_from_text("fuzz");
  aggregation::Ticket read;
  const wire::Secret job_key = aggregation::job_key_of(key, wire::load_le<uint64_t>(ticket.data() + 16));
  // Nobody guesses 32 bytes of HMAC.
  NEZHA_CHECK(aggregation::check_ticket(ticket, key, &read) != wire::Refusal::none);
  // Whoever has the key says anything.
  const auto number = [&](size_t at) { return wire::load_le<uint32_t>(ticket.data() + at); };
  const auto nodes = static_cast<uint16_t>(number(4) >> 16);
  const aggregation::Ticket said{7, number(24), number(8), nodes, number(12),
                          number(32)};
  const auto honest = aggregation::make_ticket(said, aggregation::job_key_of(key, 7));
  if (aggregation::check_ticket(honest, key, &read) == wire::Refusal::none) {
    NEZHA_CHECK(read == said && read.ranks >= 1 && read.ranks <= aggregation::kTicketRanksMax);
    NEZHA_CHECK(read.nodes <= aggregation::kTicketNodesMax);
  }
  NEZHA_CHECK(job_key != key);
}

void check_job_key(std::string_view bytes) {
  auto key = aggregation::job_key_from_text(bytes);
  if (key) {
    auto again = aggregation::job_key_from_text(aggregation::to_text(*key));
    NEZHA_CHECK(again.is_ok() && again->job == key->job && again->key == key->key);
  } else {
    NEZHA_CHECK(bytes.size() < 4 || key.status().message().find(bytes) == std::string::npos);
  }
}

void check_registration(std::string_view bytes) {
  aggregation::RegistrationRequest request;
  const std::string_view head = bytes.substr(0, aggregation::kRequestBytes);
  if (!aggregation::decode(head, kWorld, &request)) return;
  NEZHA_CHECK(aggregation::encode(request) == head && request.members <= kWorld);
  if (request.leaves()) return;
  aggregation::MemberList list;
  const size_t list_bytes = request.members * aggregation::kMemberEntryBytes;
  const std::string_view rest = bytes.substr(head.size(), list_bytes);
  if (!aggregation::decode(rest, request, kWorld, &list)) return;
  NEZHA_CHECK(aggregation::encode(list) == rest);
  const schedule::AggregationTree tree{static_cast<int>(request.members - request.nodes), list.parents};
  if (!schedule::check_tree(tree)) return;
  for (int node = tree.ranks; node < tree.members(); ++node) {
    NEZHA_CHECK(aggregation::registrar_of(tree, node) >= 0);
  }
}

void check_topology(std::string_view bytes) {
  auto topology = aggregation::parse_topology(bytes);
  if (!topology) return;
  const std::string json = aggregation::to_json(*topology);
  auto again = aggregation::parse_topology(json);
  NEZHA_CHECK(again.is_ok() && aggregation::to_json(*again) == json);
  std::vector<int> ranks(8);
  std::iota(ranks.begin(), ranks.end(), 0);
  std::vector<int> leaves;
  for (const int rank : ranks) {
    leaves.push_back(topology->leaf_of("10.1.0." + std::to_string(rank * 40)));
    NEZHA_CHECK(leaves.back() < topology->size());
  }
  auto plan = aggregation::plan_tree(*topology, 8, ranks, leaves);
  if (plan) NEZHA_CHECK(schedule::check_tree(plan->tree).is_ok());
}

}  // namespace
}  // namespace nezha

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  nezha::check_ticket(bytes);
  nezha::check_job_key(bytes);
  nezha::check_registration(bytes);
  nezha::check_topology(bytes);
  (void)nezha::aggregation::decode_reply(bytes.substr(0, nezha::aggregation::kReplyBytes));
  return 0;
}
