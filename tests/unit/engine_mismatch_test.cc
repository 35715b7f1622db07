// The sentence about two ranks that disagree: it names the field, both values and both ranks.
#include "engine/operation/mismatch.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace nezha::engine {
namespace {

struct Case {
  const char* field;
  wire::OpDescriptor other;
  const char* mine_value;
  const char* other_value;
};

wire::OpDescriptor base() {
  wire::OpDescriptor op;
  op.count = 1000;
  op.plan = 7;
  return op;
}

template <class Change>
wire::OpDescriptor changed(Change change) {
  wire::OpDescriptor op = base();
  change(op);
  return op;
}

TEST(Mismatch, NamesTheFieldAndBothValues) {
  const std::vector<Case> cases = {
      {"collective", changed([](auto& op) { op.collective = Collective::broadcast; }),
       "all_reduce", "broadcast"},
      {"root", changed([](auto& op) { op.root = 3; }), "0", "3"},
      {"dtype", changed([](auto& op) { op.dtype = Dtype::int64; }), "float32", "int64"},
      {"op", changed([](auto& op) { op.op = ReduceOp::max; }), "sum", "max"},
      {"count", changed([](auto& op) { op.count = 1001; }), "1000", "1001"},
      {"algorithm", changed([](auto& op) { op.algorithm = Algorithm::tree; }), "ring", "tree"},
      {"plan", changed([](auto& op) { op.plan = 8; }), "7", "8"},
  };
  for (const Case& at : cases) {
    const wire::OpDescriptor mine = base();
    const Status status = describe_mismatch(5, 42, {1, mine}, {2, at.other});
    EXPECT_EQ(status.code(), Code::mismatch);
    EXPECT_EQ(status.peer, 2);
    const std::string wanted = std::string(": ") + at.field + " is " + at.mine_value +
                               " on rank 1 but " + at.other_value + " on rank 2";
    EXPECT_NE(status.message().find(wanted), std::string::npos) << status.message();
    EXPECT_NE(status.message().find("operation #42 of communicator 5"), std::string::npos)
        << status.message();
  }
}

// Another collective makes every other field differ as well: it alone is the explanation.
TEST(Mismatch, TheMostTellingFieldComesFirst) {
  const wire::OpDescriptor mine = base();
  wire::OpDescriptor other = base();
  other.collective = Collective::barrier;
  other.dtype = Dtype::int8;
  other.count = 0;
  other.algorithm = Algorithm::dissemination;
  other.plan = 0;
  const Status status = describe_mismatch(0, 0, {0, mine}, {1, other});
  EXPECT_NE(status.message().find("collective is all_reduce"), std::string::npos)
      << status.message();
  EXPECT_NE(status.message().find("rank 1 calls barrier of 0 x int8"), std::string::npos)
      << status.message();
}

}  // namespace
}  // namespace nezha::engine
