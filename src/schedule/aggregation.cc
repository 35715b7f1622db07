#include "schedule/aggregation.h"

#include <algorithm>

#include "schedule/builder.h"

namespace nezha::schedule {
namespace {

constexpr Parts kNone{0, 0};
constexpr Tag kUp{0, 0};
constexpr Tag kDown{1, 0};
constexpr Tag kHave{2, 0};
constexpr Tag kAllHave{3, 0};

// Adds the rounds that run once, behind the last chunk. Once is enough: a rank that is late has not
// sent its contributions either, and so holds the node up before the node has to keep results for
// it.
void add_holding(Builder& builder, int parent, const std::vector<int>& children) {
  builder.closing();
  for (const int child : children) builder.recv(child, kNone, kHave);
  builder.next_round();
  if (parent >= 0) {
    builder.send(parent, kNone, kHave).next_round();
    builder.recv(parent, kNone, kAllHave).next_round();
  }
  for (const int child : children) builder.send(child, kNone, kAllHave);
}

// `parts`: none for a barrier.
void add_rank(Builder& builder, Parts parts, int parent) {
  builder.send(parent, parts, kUp).next_round();
  // A result that replaces the input must do so as a whole or not at all.
  builder.recv_whole(parent, parts, kDown).next_round();
}

void add_node(Builder& builder, Parts parts, int parent, const std::vector<int>& children) {
  for (size_t i = 0; i < children.size(); ++i) {
    const bool last = i + 1 == children.size() && parent < 0;
    if (i == 0 || parts.begin == parts.end) {
      builder.recv(children[i], parts, kUp);
    } else {
      builder.recv_reduce(children[i], parts, kUp, last ? Completes::yes : Completes::no);
    }
    // Empty messages may come in any order.
    if (parts.begin < parts.end) builder.next_round();
  }
  builder.next_round();
  if (parent >= 0) {
    builder.send(parent, parts, kUp).next_round();
    builder.recv(parent, parts, kDown).next_round();
  }
  for (const int child : children) builder.send(child, parts, kDown);
  builder.next_round();
}

}  // namespace

std::vector<int> AggregationTree::children_of(int member) const {
  std::vector<int> children;
  for (int other = 0; other < members(); ++other) {
    if (parent[static_cast<size_t>(other)] == member) children.push_back(other);
  }
  return children;
}

Status check_tree(const AggregationTree& tree) {
  if (tree.ranks < 2 || tree.nodes() < 1) {
    return error(Code::internal, "an aggregation tree of %d ranks and %d nodes", tree.ranks,
                 tree.nodes());
  }
  for (int member = 0; member < tree.members(); ++member) {
    int at = member;
    for (int steps = 0; at >= 0; ++steps) {
      const int parent = tree.parent[static_cast<size_t>(at)];
      if (parent >= tree.members() || (parent >= 0 && parent < tree.ranks) || steps > tree.nodes() ||
          (parent < 0 && at < tree.ranks)) {
        return error(Code::internal, "aggregation tree: member %d has no way to the root", member);
      }
      at = parent;
    }
    const std::vector<int> children = tree.children_of(member);
    const bool has_parent = tree.parent[static_cast<size_t>(member)] >= 0;
    const bool is_of_one_rank = children.size() == 1 && children[0] < tree.ranks && has_parent;
    if (member >= tree.ranks && children.size() < 2 && !is_of_one_rank) {
      return error(Code::internal, "aggregation tree: node %d has %zu children and adds nothing", member,
                   children.size());
    }
  }
  if (std::count(tree.parent.begin(), tree.parent.end(), -1) != 1) {
    return error(Code::internal, "aggregation tree: it has more than one root");
  }
  return Status::ok();
}

Result<Schedule> build_aggregation(Collective collective, const AggregationTree& tree, int member,
                                   bool held) {
  if (collective != Collective::all_reduce && collective != Collective::barrier) {
    return error(Code::unsupported, "aggregation nodes do not do %s", name_of(collective).data());
  }
  const bool is_rank = member < tree.ranks;
  const Parts parts{0, collective == Collective::barrier ? 0U : 1U};
  const int parent = tree.parent[static_cast<size_t>(member)];
  const std::vector<int> children = tree.children_of(member);
  Builder builder(1, is_rank ? Memory::output : Memory::workspace);
  is_rank ? add_rank(builder, parts, parent) : add_node(builder, parts, parent, children);
  if (held) add_holding(builder, parent, children);
  Schedule schedule{collective, Algorithm::aggregation, member, tree.members(), 0, {}, tree.nodes()};
  schedule.programs.push_back(builder.finish());
  return schedule;
}

}  // namespace nezha::schedule
