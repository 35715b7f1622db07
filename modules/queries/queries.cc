#include "queries/queries.h"

#include <iterator>

#include "capi/queries.h"
#include "queries/balancer_query.h"
#include "queries/plan_query.h"
#include "queries/reduction_query.h"

namespace nezha::queries {
namespace {

struct Topic {
  std::string_view name;
  Result<std::string> (*answer)(const JsonValue& request);
};

constexpr Topic kAnswers[] = {{"explain", explain_plan}, {"divide", divide_bytes},
                              {"schedule", export_schedule}, {"algorithm", check_algorithm},
                              {"bind", bind_transfer}, {"learn", learn_operations},
                              {"cut", cut_operations}, {"reduction", measure_reduction}};
static_assert(std::size(kAnswers) == std::size(capi::Queries::kTopics));

class Answers final : public capi::Queries {
 public:
  Result<std::string> answer(std::string_view topic, const JsonValue& request) const override {
    for (const Topic& known : kAnswers) {
      if (known.name == topic) return known.answer(request);
    }
    return error(Code::invalid_argument, "'%.*s' is no question about plans, policies or arithmetic",
                 static_cast<int>(topic.size()), topic.data());
  }
};

}  // namespace

const Module& queries_module() {
  static const Answers answers;
  static const capi::Queries& queries = answers;
  static const Module module{capi::Queries::kInterface, &queries, log::set_level};
  return module;
}

}  // namespace nezha::queries
