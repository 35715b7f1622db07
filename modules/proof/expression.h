// ExpressionTable: names for what a range of elements holds, so that a proof can ask not only "does
// it contain every rank once?" but "is it the same expression, added in the same order?".
//
// Contract: one owner, one thread. Equal expressions have equal names. Up to 64 ranks. An operation
// without a meaning (a contribution counted twice, a scaled value reduced again) gives `kInvalid`,
// and everything made of it is invalid too.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

namespace nezha::schedule {

inline constexpr int kProvableRanksMax = 64;

using Expression = uint32_t;

class ExpressionTable {
 public:
  static constexpr Expression kNothing = 0;  // memory that the collective has not defined
  static constexpr Expression kInvalid = 1;

  ExpressionTable();

  Expression input_of(int rank) const { return 2 + static_cast<Expression>(rank); }
  Expression reduced(Expression left, Expression right);
  // The final scaling of `avg`.
  Expression scaled(Expression operand);

  // One bit per rank whose input is part of it.
  uint64_t contributors(Expression expression) const { return nodes_[expression].contributors; }
  bool is_scaled(Expression expression) const { return nodes_[expression].scaled; }

 private:
  struct Node {
    uint64_t contributors = 0;
    bool scaled = false;
  };

  Expression name(uint64_t key, Node node);

  std::vector<Node> nodes_;
  std::unordered_map<uint64_t, Expression> names_;
};

}  // namespace nezha::schedule
