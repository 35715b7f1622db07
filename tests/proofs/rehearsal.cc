#include "proofs/rehearsal.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "proof/contract.h"
#include "proof/links.h"
#include "proofs/rehearsal_memory.h"
#include "proofs/rehearsal_network.h"

namespace nezha::schedule {
namespace {

constexpr uint32_t kChunksMax = 1u << 16;

struct Cursor {
  uint32_t round = 0;
  uint32_t missing = 0;      // receives of the round in progress that are not done
  uint32_t undelivered = 0;  // sends
  bool open = false;
  bool finished = false;
  std::vector<bool> done;                                // [step], receives only
  std::map<uint32_t, std::vector<Arrival>> early;        // [step], reductions of later rounds
};

struct RankState {
  bool entered = false;
  bool complete = false;
  uint32_t low = 0;        // every chunk below is finished
  uint32_t next = 0;       // the next to open, an index into `order`
  uint32_t unfinished = 0;  // open ones
  std::vector<uint32_t> order;
  std::vector<Cursor> cursors;        // [chunk]
  std::vector<Arrival> before_entry;
};

class Rehearsal {
 public:
  Rehearsal(std::span<const Schedule> ranks, const RehearsalOptions& options,
            const Contract& contract, std::vector<SliceLinks> slices)
      : options_(options), slices_(std::move(slices)), rng_(options.seed),
        world_size_(static_cast<int>(ranks.size())),
        is_barrier_(ranks[0].collective == Collective::barrier),
        chunk_count_(static_cast<uint32_t>(slices_.size()) * options.chunks_per_slice),
        memory_(slices_, contract, chunk_count_), network_(slices_, options_, memory_, rng_),
        states_(ranks.size()) {
    for (int rank = 0; rank < world_size_; ++rank) prepare(rank);
    slow_rank_ = static_cast<int>(rng_.pick(ranks.size()));
  }

  Status run() {
    while (failure_.is_ok() && act()) {
    }
    NEZHA_RETURN_IF_ERROR(failure_);
    for (int rank = 0; rank < world_size_; ++rank) {
      if (states_[rank].complete) continue;
      return error(Code::internal, "stuck: rank %d of %d cannot finish chunk %u of %u (seed %llu)",
                   rank, world_size_, states_[rank].low, chunk_count_,
                   static_cast<unsigned long long>(options_.seed));
    }
    return Status::ok();
  }

 private:
  const SliceLinks& links(uint32_t chunk) const { return slices_[chunk % slices_.size()]; }
  Cursor& cursor(int rank, uint32_t chunk) { return states_[rank].cursors[chunk]; }
  const Step& target_step(const Message& message) const {
    return links(message.chunk).step(message.target);
  }

  void prepare(int rank) {
    RankState& state = states_[rank];
    outside_.push_back(rank);
    state.order.resize(chunk_count_);
    std::iota(state.order.begin(), state.order.end(), 0);
    if (!options_.rules.admits_in_order) {
      std::shuffle(state.order.begin(), state.order.end(), rng_.generator());
    }
    state.cursors.resize(chunk_count_);
    for (uint32_t chunk = 0; chunk < chunk_count_; ++chunk) {
      const Program& program = links(chunk).program(rank);
      state.cursors[chunk].done.resize(program.steps.size());
    }
  }

  // Does one thing of all that could happen next; false when nothing can.
  bool act() {
    const size_t total = outside_.size() + network_.flights() + reducible_.size();
    if (total == 0) return false;
    size_t choice = rng_.pick(total);
    for (int attempt = 0; attempt < 2 && concerns(choice) == slow_rank_; ++attempt) {
      choice = rng_.pick(total);
    }
    if (choice < outside_.size()) {
      enter(take(outside_, choice));
    } else if (choice < outside_.size() + network_.flights()) {
      fly(choice - outside_.size());
    } else {
      reduce(take(reducible_, choice - outside_.size() - network_.flights()));
    }
    return true;
  }

  int concerns(size_t choice) const {
    if (choice < outside_.size()) return outside_[choice];
    choice -= outside_.size();
    const uint32_t message = choice < network_.flights()
                                 ? network_.message_of(choice)
                                 : reducible_[choice - network_.flights()].message;
    return network_.message(message).target.rank;
  }

  void enter(int rank) {
    RankState& state = states_[rank];
    state.entered = true;
    open_chunks(rank);
    for (Arrival& arrival : std::exchange(state.before_entry, {})) land(std::move(arrival));
  }

  void open_chunks(int rank) {
    RankState& state = states_[rank];
    while (state.next < chunk_count_) {
      const bool fits = options_.rules.admits_in_order
                            ? state.next < uint64_t{state.low} + options_.window
                            : state.unfinished < options_.window;
      if (!fits) return;
      const uint32_t chunk = state.order[state.next++];
      ++state.unfinished;
      cursor(rank, chunk).open = true;
      start_round(rank, chunk);
    }
  }

  void start_round(int rank, uint32_t chunk) {
    Cursor& at = cursor(rank, chunk);
    const Program& program = links(chunk).program(rank);
    if (at.round >= program.round_count()) {
      maybe_finish(rank, chunk);
      return;
    }
    const uint32_t begin = at.round == 0 ? 0 : program.round_ends[at.round - 1];
    const uint32_t end = program.round_ends[at.round];
    for (uint32_t i = begin; i < end; ++i) {
      if (program.steps[i].kind == StepKind::send) {
        ++at.undelivered;
        network_.send(chunk, {rank, at.round, i});
      }
      if (program.steps[i].kind == StepKind::copy) memory_.copy(rank, chunk, program.steps[i]);
      at.missing += receives(program.steps[i]) && !at.done[i] ? 1 : 0;
    }
    for (uint32_t i = begin; i < end; ++i) {
      const auto early = at.early.find(i);
      if (early == at.early.end()) continue;
      for (Arrival& arrival : early->second) reducible_.push_back(std::move(arrival));
      at.early.erase(early);
    }
    if (at.missing == 0) end_round(rank, chunk);
  }

  void end_round(int rank, uint32_t chunk) {
    ++cursor(rank, chunk).round;
    start_round(rank, chunk);
  }

  void fly(size_t flight) {
    std::optional<Arrival> arrival = network_.fly(flight);
    if (!arrival) return;
    if (arrival->is_first) {
      const Message message = network_.message(arrival->message);
      const bool applied_later = target_step(message).kind != StepKind::recv;
      if (applied_later && !network_.fill_scratch(arrival->message)) {
        fail(message, "the scratch of the pair outgrows its credit");
      }
      if (!options_.rules.credits_on_use) network_.return_credit(arrival->message);
      acknowledge(message.source.rank, message.chunk);
    }
    land(std::move(*arrival));
  }

  void acknowledge(int rank, uint32_t chunk) {
    --cursor(rank, chunk).undelivered;
    maybe_finish(rank, chunk);
  }

  void land(Arrival arrival) {
    const Message message = network_.message(arrival.message);
    RankState& state = states_[message.target.rank];
    if (!state.entered) {
      state.before_entry.push_back(std::move(arrival));
      return;
    }
    Cursor& at = cursor(message.target.rank, message.chunk);
    const Step& step = target_step(message);
    if (step.kind == StepKind::recv) {
      memory_.land(message.target.rank, message.chunk, step, arrival.payload);
      receive_done(arrival.message);
    } else if (at.open && at.round >= message.target.round) {
      reducible_.push_back(std::move(arrival));
    } else {
      at.early[message.target.step].push_back(std::move(arrival));
    }
  }

  void reduce(const Arrival& arrival) {
    const Message message = network_.message(arrival.message);
    memory_.reduce(message.target.rank, message.chunk, target_step(message), arrival.payload);
    if (cursor(message.target.rank, message.chunk).done[message.target.step]) return;
    network_.empty_scratch(arrival.message);
    receive_done(arrival.message);
  }

  void receive_done(uint32_t id) {
    const Message message = network_.message(id);
    const int rank = message.target.rank;
    Cursor& at = cursor(rank, message.chunk);
    if (at.done[message.target.step]) return;
    at.done[message.target.step] = true;
    if (options_.rules.credits_on_use) network_.return_credit(id);
    const bool in_progress = at.open && at.round == message.target.round;
    if (in_progress && --at.missing == 0) end_round(rank, message.chunk);
  }

  void maybe_finish(int rank, uint32_t chunk) {
    RankState& state = states_[rank];
    Cursor& at = state.cursors[chunk];
    if (at.finished || at.round < links(chunk).program(rank).round_count()) return;
    if (options_.rules.retains_until_delivered && at.undelivered > 0) return;
    at.finished = true;
    memory_.drop_workspace(rank, chunk);
    --state.unfinished;
    while (state.low < chunk_count_ && state.cursors[state.low].finished) ++state.low;
    if (state.low == chunk_count_) {
      complete(rank);
    } else {
      open_chunks(rank);
    }
  }

  // The caller looks at the result and uses the memory for something else.
  void complete(int rank) {
    RankState& state = states_[rank];
    state.complete = true;
    for (uint32_t chunk = 0; chunk < chunk_count_; ++chunk) {
      if (!is_right(rank, chunk)) {
        failure_ = error(Code::internal, "rank %d, chunk %u: wrong result (seed %llu)", rank, chunk,
                         static_cast<unsigned long long>(options_.seed));
        return;
      }
    }
    memory_.give_back(rank);
  }

  bool is_right(int rank, uint32_t chunk) {
    if (!is_barrier_) return memory_.is_right(rank, chunk);
    return std::all_of(states_.begin(), states_.end(),
                       [](const RankState& state) { return state.entered; });
  }

  void fail(const Message& message, const char* sentence) {
    failure_ = error(Code::internal, "chunk %u, %s: %s (seed %llu)", message.chunk,
                     describe(links(message.chunk), message.target).c_str(), sentence,
                     static_cast<unsigned long long>(options_.seed));
  }

  const RehearsalOptions options_;
  const std::vector<SliceLinks> slices_;
  Rng rng_;
  const int world_size_;
  const bool is_barrier_;
  const uint32_t chunk_count_;
  RehearsalMemory memory_;
  RehearsalNetwork network_;
  int slow_rank_ = 0;
  std::vector<RankState> states_;
  std::vector<int> outside_;       // ranks whose caller has not made the call yet
  std::vector<Arrival> reducible_;
  Status failure_;
};

Status check_options(std::span<const Schedule> ranks, const RehearsalOptions& options) {
  if (options.window < 1 || options.chunks_per_slice < 1 ||
      options.chunks_per_slice > kChunksMax / ranks[0].slices() ||
      !(options.resend_chance >= 0 && options.resend_chance < 1)) {
    return error(Code::invalid_argument,
                 "rehearsal: needs a window, chunks and a chance below 1; got %u, %u and %g",
                 options.window, options.chunks_per_slice, options.resend_chance);
  }
  return Status::ok();
}

}  // namespace

Status rehearse(std::span<const Schedule> ranks, const RehearsalOptions& options) {
  if (ranks.size() > kProvableRanksMax) {
    return error(Code::unsupported, "a world of %zu ranks: rehearsals go up to %d", ranks.size(),
                 kProvableRanksMax);
  }
  NEZHA_RETURN_IF_ERROR(check_shape(ranks));
  NEZHA_RETURN_IF_ERROR(check_options(ranks, options));
  Result<Contract> contract = Contract::of(ranks);
  if (!contract) return contract.status();
  std::vector<SliceLinks> slices;
  for (uint32_t slice = 0; slice < ranks[0].slices(); ++slice) {
    Result<SliceLinks> linked = link(ranks, slice);
    if (!linked) return linked.status();
    slices.push_back(std::move(*linked));
  }
  return Rehearsal(ranks, options, *contract, std::move(slices)).run();
}

}  // namespace nezha::schedule
