// All-to-all along columns: what a rank has for another host goes to its counterpart there in one
// message, and that rank hands it out. So between two hosts there is a message for each rank, and not for
// each pair of them, and every block crosses the network once: for short blocks. Parts are those of
// Geometry::rows.
#include "schedule/algorithms/algorithms.h"
#include "schedule/algorithms/block_runs.h"
#include "schedule/hierarchy/by_host.h"

namespace nezha::schedule::by_host {
namespace {

constexpr int kToColumn = 0;
constexpr int kStraight = 1;
constexpr int kHandOut = 2;

class ColumnProgram {
 public:
  ColumnProgram(const Hosts& hosts, int rank)
      : hosts_(hosts), rank_(rank), local_(hosts, rank), sources_(sources_of(rank)),
        builder_(static_cast<uint32_t>(hosts.ranks() * hosts.ranks())) {
    for (int away = 1; away < local_.size(); ++away) {
      mates_.push_back(local_.here[static_cast<size_t>((local_.place + away) % local_.size())]);
    }
  }

  Program write() {
    give();
    take();
    builder_.next_round();
    hand_out();
    return builder_.finish();
  }

 private:
  Parts block(int source, int target) const {
    return algorithms::block_part(source * hosts_.ranks() + target);
  }

  std::vector<Parts> blocks_for(int source, int host) const {
    std::vector<Parts> runs;
    for (const int target : hosts_.ranks_of(host)) algorithms::add_run(runs, block(source, target));
    return runs;
  }

  int counterpart_on(int host, int rank) const {
    return column_owner(hosts_, host, static_cast<uint32_t>(rank), 0);
  }

  // The ranks on other hosts whose counterpart on this host is `rank`.
  std::vector<int> sources_of(int rank) const {
    std::vector<int> sources;
    for (int away = 1; away < hosts_.hosts(); ++away) {
      const int host = (local_.host + hosts_.hosts() - away) % hosts_.hosts();
      for (const int source : hosts_.ranks_of(host)) {
        if (counterpart_on(local_.host, source) == rank) sources.push_back(source);
      }
    }
    return sources;
  }

  void give() {
    for (int away = 1; away < hosts_.hosts(); ++away) {
      const int host = (local_.host + away) % hosts_.hosts();
      algorithms::send_run(builder_, counterpart_on(host, rank_), kToColumn, blocks_for(rank_, host));
    }
    for (const int mate : mates_) builder_.send(mate, block(rank_, mate), {kStraight});
  }

  void take() {
    builder_.work_in(Memory::workspace);
    for (const int source : sources_) {
      algorithms::recv_run(builder_, source, kToColumn, blocks_for(source, local_.host));
    }
    builder_.work_in(Memory::output);
    for (const int mate : mates_) builder_.recv(mate, block(mate, rank_), {kStraight});
    builder_.copy(block(rank_, rank_));
  }

  void hand_out() {
    builder_.work_in(Memory::workspace);
    for (const int source : sources_) {
      for (const int mate : mates_) builder_.send(mate, block(source, mate), {kHandOut, source});
    }
    for (const int source : sources_) builder_.keep(block(source, rank_));
    builder_.work_in(Memory::output);
    for (const int mate : mates_) {
      for (const int source : sources_of(mate)) {
        builder_.recv(mate, block(source, rank_), {kHandOut, source});
      }
    }
  }

  const Hosts& hosts_;
  const int rank_;
  const LocalRank local_;
  const std::vector<int> sources_;
  std::vector<int> mates_;  // the other ranks of its host, from the next one on
  Builder builder_;
};

}  // namespace

Schedule all_to_all_columns(const Hosts& hosts, int rank, int root) {
  Schedule schedule{Collective::all_to_all, Algorithm::columns, rank, hosts.ranks(), root, {}};
  schedule.programs.push_back(ColumnProgram(hosts, rank).write());
  return schedule;
}

HostTerms all_to_all_columns_terms(const Hosts& hosts) {
  HostTerms terms = all_to_all_counterparts_terms(hosts);
  terms.steps =
      algorithms::burst_steps(hosts.hosts()) * algorithms::steps_of_senders(hosts.most_ranks());
  return terms;
}

}  // namespace nezha::schedule::by_host
