#include "queries/plan_text.h"

#include <cstdio>

#include "schedule/candidates.h"

namespace nezha::queries {

using schedule::Candidate;
using schedule::CostTable;
using schedule::HostTerms;
using schedule::PlanRequest;

namespace {

std::string line(const Candidate& candidate, const PlanRequest& request, const CostTable& costs) {
  const HostTerms& terms = candidate.terms;
  char text[256];
  std::snprintf(text, sizeof text,
                "  %-18s %12.1f us  %6.1f steps  %6.2f x bytes  %6.2f x reduced  ",
                name_of(candidate.algorithm).data(),
                1e6 * estimate(candidate, request, costs).total_s(),
                terms.steps, terms.bytes_factor, terms.reduce_factor);
  std::string inside;
  if (is_mixed(request.hosts)) {
    char more[64];
    std::snprintf(more, sizeof more, "(inside %5.1f steps  %5.2f x bytes)  ", terms.inside_steps,
                  terms.inside_bytes);
    inside = more;
  }
  return text + inside + std::string(candidate.summary) + "\n";
}

}  // namespace

std::string explain(const PlanRequest& request, const CostTable& known) {
  const Result<schedule::Plan> plan = make_plan(request, known);
  if (!plan) return plan.status().to_string() + "\n";
  const CostTable& costs = costs_of_choice(request, known);
  char head[256];
  const bool whole = costs.rails > 1 && request.bytes() <= kUndividedBytesMax;
  std::snprintf(head, sizeof head,
                "%s of %llu x %s over %d ranks and %u rails "
                "(%.1f us, %.3f GB/s%s, reduce %.3f GB/s)\n",
                name_of(request.collective).data(), static_cast<unsigned long long>(request.count),
                name_of(request.dtype).data(), request.world_size, known.rails,
                1e6 * costs.latency_s,
                1e-9 * (whole ? costs.rail_bytes_per_s : costs.rate_bytes_per_s),
                whole ? " of the one that carries it" : "", 1e-9 * costs.reduce_bytes_per_s);
  std::string text = head;
  if (is_mixed(request.hosts)) {
    std::snprintf(head, sizeof head, "on %d hosts of up to %d ranks (inside %.1f us, %.3f GB/s a rank); "
                  "x bytes: of the busiest host\n", request.hosts->hosts(), request.hosts->most_ranks(),
                  1e6 * costs.inside_latency_s, 1e-9 * costs.inside_bytes_per_s);
    text += head;
  }
  for (const Candidate& candidate :
       candidates(request.collective, request.world_size, request.hosts)) {
    text += line(candidate, request, costs);
  }
  const bool is_own = plan.value().algorithm == Algorithm::file;
  const bool is_given = request.algorithm != Algorithm::automatic;
  char choice[128];
  std::snprintf(choice, sizeof choice, "chosen: %s, %u chunks a slice, window %u%s\n",
                name_of(plan.value().algorithm).data(), plan.value().chunks_per_slice,
                plan.value().window,
                is_own ? " (the algorithm of the file)" :
                is_given ? " (algorithm given by the caller)" :
                request.fixed_order ? " (by nominal costs, whatever the hosts and rails are)" : "");
  return text + choice;
}

}  // namespace nezha::queries
