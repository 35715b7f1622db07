// Candidates: the algorithms that could carry out an operation of these ranks on these hosts, and what
// each is predicted to cost.
//
// Contract: pure, any thread.
#pragma once

#include <string_view>
#include <vector>

#include "base/status.h"
#include "schedule/catalog.h"
#include "schedule/hierarchy.h"
#include "schedule/hosts.h"
#include "schedule/plan.h"

namespace nezha::schedule {

struct Candidate {
  Algorithm algorithm;
  std::string_view summary;
  Shape shape;
  HostTerms terms;  // where hosts are not mixed: all is between ranks, nothing inside
};

// Rows of the catalog, then those of the hierarchies where the hosts are mixed. `hosts`: those of
// the communicator, with `world_size` ranks; null: every rank counts as alone.
std::vector<Candidate> candidates(Collective collective, int world_size, const Hosts* hosts);
// `unsupported`: the algorithm does not do the collective here; the text says what to choose.
Result<Candidate> find_candidate(Collective collective, Algorithm algorithm, int world_size,
                                 const Hosts* hosts);

// The bytes that the only chunk holds, for a shape of one chunk (is_one_chunk).
uint64_t one_chunk_bytes(const PlanRequest& request, const Shape& shape);

// The schedule of one candidate; the errors are those of find_candidate and of build in catalog.h.
Result<Schedule> build(Collective collective, Algorithm algorithm, int rank, int world_size, int root,
                       const Hosts* hosts);

// Predicted seconds of one algorithm: alpha x steps + beta x bytes + gamma x reduced bytes
// (Thakur, Rabenseifner, Gropp 2005, section 3). Messages inside hosts have an alpha and a beta of
// their own, and their bytes move while the rails carry others.
struct Estimate {
  double latency_s = 0;
  double transfer_s = 0;
  double reduce_s = 0;

  double total_s() const { return latency_s + transfer_s + reduce_s; }
};
Estimate estimate(const Candidate& candidate, const PlanRequest& request, const CostTable& costs);

// Whether the bits of the result depend on the order of additions (PlanRequest::fixed_order).
bool has_order(Collective collective, Dtype dtype);
// The costs by which an algorithm is chosen: nominal ones where the request has a fixed order.
const CostTable& costs_of_choice(const PlanRequest& request, const CostTable& costs);

// Why make_plan leaves a candidate out where nobody names its algorithm; empty: it does not.
std::string_view why_left_out(const Candidate& candidate, const PlanRequest& request);

}  // namespace nezha::schedule
