#include "proof/expression.h"

namespace nezha::schedule {

ExpressionTable::ExpressionTable() : nodes_(2) {
  for (int rank = 0; rank < kProvableRanksMax; ++rank) {
    nodes_.push_back({uint64_t{1} << rank, false});
  }
}

Expression ExpressionTable::name(uint64_t key, Node node) {
  const auto [entry, is_new] = names_.try_emplace(key, static_cast<Expression>(nodes_.size()));
  if (is_new) nodes_.push_back(node);
  return entry->second;
}

Expression ExpressionTable::reduced(Expression left, Expression right) {
  const Node a = nodes_[left];
  const Node b = nodes_[right];
  const bool known = left > kInvalid && right > kInvalid;
  if (!known || a.scaled || b.scaled || (a.contributors & b.contributors) != 0) return kInvalid;
  const uint64_t key = (uint64_t{left} << 32) | right;
  return name(key, {a.contributors | b.contributors, false});
}

Expression ExpressionTable::scaled(Expression operand) {
  if (operand <= kInvalid || nodes_[operand].scaled) return kInvalid;
  return name(uint64_t{operand} << 32, {nodes_[operand].contributors, true});
}

}  // namespace nezha::schedule
