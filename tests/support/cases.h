// What is common to the kinds of cases (all_reduce_case.h, block_case.h): a world goes through many.
//
// Contract: a case has name(), call(case, communicator, rank) and check(case, rank); errors come back.
#pragma once

#include <string>
#include <vector>

#include "support/world.h"

namespace nezha::testing {

// Every rank makes the calls in the order of the cases. The first error of any rank.
template <class Case>
Status call_all(World& world, std::vector<Case>& cases) {
  const auto outcomes = world.run([&](Member& self) {
    for (Case& at : cases) {
      self.doing(at.name());
      NEZHA_RETURN_IF_ERROR(call(at, *self.comm, self.rank));
    }
    return Status::ok();
  });
  for (const Status& outcome : outcomes) NEZHA_RETURN_IF_ERROR(outcome);
  return Status::ok();
}

// "" or what is wrong with the first wrong result. Errors of the calls included.
template <class Case>
std::string run_cases(World& world, std::vector<Case>& cases) {
  const Status outcome = call_all(world, cases);
  if (!outcome.is_ok()) return outcome.to_string();
  for (Case& at : cases) {
    for (int rank = 0; rank < world.size(); ++rank) {
      if (std::string wrong = check(at, rank); !wrong.empty()) return wrong;
    }
  }
  return "";
}

}  // namespace nezha::testing
