#include "schedule/aggregation.h"

#include <algorithm>

#include "schedule/builder.h"

namespace nezha::schedule {
namespace {

constexpr Parts kWhole{0, 1};
constexpr Parts kNone{0, 0};
constexpr Tag kUp{0, 0};
constexpr Tag kDown{1, 0};
constexpr Tag kHave{2, 0};
constexpr Tag kAllHave{3, 0};

// Who contributes to one slice, and who wants its result: everybody, one rank, or everybody else.
struct Traffic {
  enum class Who : uint8_t { nobody, all, one, others };
  Who from = Who::all;
  Who to = Who::all;
  int one = 0;
  bool reduces = true;
  bool keeps = false;  // the one who contributes has an output for it, too
  Parts parts = kWhole;

  bool is(Who who, int rank) const {
    return who == Who::all || (who != Who::nobody && (who == Who::one) == (rank == one));
  }
  bool gives(int rank) const { return is(from, rank); }
  bool wants(int rank) const { return is(to, rank); }
};

Traffic traffic_of(Collective collective, int slice, int root) {
  using Who = Traffic::Who;
  switch (collective) {
    case Collective::broadcast: return {Who::one, Who::others, root, false, false, kWhole};
    case Collective::all_gather: return {Who::one, Who::others, slice, false, true, kWhole};
    case Collective::reduce: return {Who::all, Who::one, root, true, false, kWhole};
    case Collective::reduce_scatter: return {Who::all, Who::one, slice, true, false, kWhole};
    case Collective::barrier: return {Who::all, Who::all, 0, false, false, kNone};
    default: return {};
  }
}

// The tree as one member sees it, for one slice.
class View {
 public:
  View(const AggregationTree& tree, const Traffic& traffic, int member)
      : tree_(tree), member_(member), givers_(tree.parent.size() + 1), wanters_(givers_) {
    for (int rank = 0; rank < tree.ranks; ++rank) {
      for (int at = rank; at >= 0; at = tree.parent[static_cast<size_t>(at)]) note(at, rank, traffic);
      note(tree.members(), rank, traffic);
    }
  }

  int parent() const { return tree_.parent[static_cast<size_t>(member_)]; }
  bool is_root() const { return parent() < 0; }
  std::vector<int> children() const {
    std::vector<int> children;
    for (int other = 0; other < tree_.members(); ++other) {
      if (tree_.parent[static_cast<size_t>(other)] == member_) children.push_back(other);
    }
    return children;
  }
  // Whether something of the subtree of `member` goes up, and something goes down to it. A subtree that
  // has all contributions needs nothing from above.
  bool sends_up(int member) const {
    return at(givers_, member) > 0 && (!has_all(givers_, member) || !has_all(wanters_, member));
  }
  bool gets_down(int member) const { return wants_any(member) && !has_all(givers_, member); }
  bool wants_any(int member) const { return at(wanters_, member) > 0; }

 private:
  // How many there are below each member, and last of all in the whole tree.
  using Counts = std::vector<int>;
  static int at(const Counts& counts, int member) { return counts[static_cast<size_t>(member)]; }
  static bool has_all(const Counts& counts, int member) { return at(counts, member) == counts.back(); }
  void note(int member, int rank, const Traffic& traffic) {
    givers_[static_cast<size_t>(member)] += traffic.gives(rank) ? 1 : 0;
    wanters_[static_cast<size_t>(member)] += traffic.wants(rank) ? 1 : 0;
  }

  const AggregationTree& tree_;
  const int member_;
  Counts givers_;
  Counts wanters_;
};

// Once, behind the last chunk, where everybody gives: whoever is behind has not given either, and holds
// the node up by itself. Elsewhere with every chunk, or a node would keep all results that a slow rank does
// not take.
void add_holding(Builder& builder, const View& view, const Traffic& traffic) {
  traffic.from == Traffic::Who::all ? builder.closing() : builder.next_round();
  for (const int child : view.children()) builder.recv(child, kNone, kHave);
  builder.next_round();
  if (!view.is_root()) {
    builder.send(view.parent(), kNone, kHave).next_round();
    builder.recv(view.parent(), kNone, kAllHave).next_round();
  }
  for (const int child : view.children()) builder.send(child, kNone, kAllHave);
}

Program rank_program(const View& view, const Traffic& traffic, int rank, bool held) {
  Builder builder(1);
  if (view.sends_up(rank)) builder.send(view.parent(), traffic.parts, kUp);
  if (traffic.keeps && rank == traffic.one) builder.copy(traffic.parts);
  builder.next_round();
  if (view.gets_down(rank)) {
    // What replaces an input must not do so by halves.
    if (traffic.reduces) {
      builder.recv_whole(view.parent(), traffic.parts, kDown);
    } else {
      builder.recv(view.parent(), traffic.parts, kDown);
    }
    builder.next_round();
  }
  if (held) add_holding(builder, view, traffic);
  return builder.finish();
}

Program node_program(const View& view, const Traffic& traffic, int node, bool held) {
  Builder builder(1, Memory::workspace);
  std::vector<int> givers = view.children();
  std::erase_if(givers, [&](int child) { return !view.sends_up(child); });
  for (size_t i = 0; i < givers.size(); ++i) {
    const bool last = i + 1 == givers.size() && view.is_root();
    if (i == 0 || !traffic.reduces) {
      builder.recv(givers[i], traffic.parts, kUp);
    } else {
      builder.recv_reduce(givers[i], traffic.parts, kUp, last ? Completes::yes : Completes::no);
    }
    // Empty messages may come in any order.
    if (traffic.parts.begin < traffic.parts.end) builder.next_round();
  }
  builder.next_round();
  if (!view.is_root() && view.sends_up(node)) {
    builder.send(view.parent(), traffic.parts, kUp).next_round();
  }
  if (!view.is_root() && view.gets_down(node)) {
    builder.recv(view.parent(), traffic.parts, kDown).next_round();
  }
  for (const int child : view.children()) {
    if (view.gets_down(child)) builder.send(child, traffic.parts, kDown);
  }
  builder.next_round();
  if (held) add_holding(builder, view, traffic);
  return builder.finish();
}

}  // namespace

AggregationTree flat_tree(int ranks) {
  AggregationTree tree{ranks, std::vector<int>(static_cast<size_t>(ranks), ranks)};
  tree.parent.push_back(-1);
  return tree;
}

Status check_tree(const AggregationTree& tree) {
  if (tree.ranks < 2 || tree.nodes() < 1) {
    return error(Code::internal, "an aggregation tree of %d ranks and %d nodes", tree.ranks, tree.nodes());
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
    const auto children = std::count(tree.parent.begin(), tree.parent.end(), member);
    const int parent = tree.parent[static_cast<size_t>(member)];
    const auto first = std::find(tree.parent.begin(), tree.parent.end(), member) - tree.parent.begin();
    const bool is_door = children == 1 && first < tree.ranks && parent >= 0;
    if (member >= tree.ranks && children < 2 && !is_door) {
      return error(Code::internal, "aggregation tree: node %d has %d children and adds nothing up", member,
                   static_cast<int>(children));
    }
  }
  if (std::count(tree.parent.begin(), tree.parent.end(), -1) != 1) {
    return error(Code::internal, "aggregation tree: it has more than one root");
  }
  return Status::ok();
}

bool can_aggregate(Collective collective) {
  switch (collective) {
    case Collective::all_reduce:
    case Collective::reduce:
    case Collective::broadcast:
    case Collective::barrier:
    case Collective::reduce_scatter:
    case Collective::all_gather: return true;
    default: return false;
  }
}

Result<Schedule> build_aggregation(Collective collective, const AggregationTree& tree, int member,
                                   int root, bool held) {
  if (!can_aggregate(collective)) {
    return error(Code::unsupported, "aggregation rails do not do %s", name_of(collective).data());
  }
  const bool blocks = collective == Collective::all_gather || collective == Collective::reduce_scatter;
  Schedule schedule{collective, Algorithm::aggregation, member, tree.members(), root, {}, tree.nodes()};
  for (int slice = 0; slice < (blocks ? tree.ranks : 1); ++slice) {
    const Traffic traffic = traffic_of(collective, slice, root);
    const View view(tree, traffic, member);
    schedule.programs.push_back(member < tree.ranks ? rank_program(view, traffic, member, held)
                                                    : node_program(view, traffic, member, held));
  }
  return schedule;
}

}  // namespace nezha::schedule
