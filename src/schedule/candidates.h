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
  HostTerms terms;  // where hosts say nothing: between ranks, and nothing inside
};

// Rows of the catalog, then those of the hierarchies where the hosts are mixed. `hosts`: of the
// communicator, with as many ranks; null where they say nothing.
std::vector<Candidate> candidates(Collective collective, int world_size, const Hosts* hosts);
// `unsupported`: the algorithm does not do the collective here, and these do.
Result<Candidate> find_candidate(Collective collective, Algorithm algorithm, int world_size,
                                 const Hosts* hosts);

// Of a shape that is one chunk (is_one_chunk): what that holds.
uint64_t one_chunk_bytes(const PlanRequest& request, const Shape& shape);

// The schedule of one of them; errors as of find_candidate and of build in catalog.h.
Result<Schedule> build(Collective collective, Algorithm algorithm, int rank, int world_size, int root,
                       const Hosts* hosts);

// Predicted seconds of one algorithm: alpha x steps + beta x bytes + gamma x reduced bytes
// (Thakur, Rabenseifner, Gropp 2005, section 3). What moves inside hosts has an alpha and a beta of its
// own, and moves while the rails do.
struct Estimate {
  double latency_s = 0;
  double transfer_s = 0;
  double reduce_s = 0;

  double total_s() const { return latency_s + transfer_s + reduce_s; }
};
Estimate estimate(const Candidate& candidate, const PlanRequest& request, const CostTable& costs);

// Its bits follow from the order of additions, which PlanRequest::fixed_order is for.
bool has_order(Collective collective, Dtype dtype);
// By which an algorithm is chosen: nominal ones where the request is of fixed order.
const CostTable& costs_of_choice(const PlanRequest& request, const CostTable& costs);

// Why make_plan leaves a candidate out where nobody names its algorithm; empty: it does not.
std::string_view why_left_out(const Candidate& candidate, const PlanRequest& request);

}  // namespace nezha::schedule
