#include "schedule/rehearsal.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <vector>

#include "schedule/contract.h"
#include "schedule/links.h"
#include "schedule/rehearsal_memory.h"

namespace nezha::schedule {
namespace {

constexpr double kRounding = 1e-9;  // credit is a sum of fractions
constexpr uint32_t kChunksMax = 1u << 16;

struct Message {
  uint32_t chunk = 0;
  Place source;
  Place target;
  double size = 0;  // in chunks
  std::optional<Payload> copy;
  bool delivered = false;
};

// One attempt to carry a message; without a snapshot it reads the live source when it arrives.
struct Flight {
  uint32_t message = 0;
  std::optional<Payload> snapshot;
};

// What arrived and waits: for its operation, for its round, or for the reduction to run.
struct Arrival {
  uint32_t message = 0;
  Payload payload;
};

struct Pair {
  std::vector<uint32_t> queue;  // messages without credit
  double credit_used = 0;
  double scratch = 0;
};

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
      : options_(options), slices_(std::move(slices)), random_(options.seed),
        world_size_(static_cast<int>(ranks.size())),
        is_barrier_(ranks[0].collective == Collective::barrier),
        chunk_count_(static_cast<uint32_t>(slices_.size()) * options.chunks_per_slice),
        memory_(slices_, contract, chunk_count_), pairs_(ranks.size() * ranks.size()),
        states_(ranks.size()) {
    for (int rank = 0; rank < world_size_; ++rank) prepare(rank);
    slow_rank_ = static_cast<int>(pick(ranks.size()));
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
  size_t pick(size_t count) { return random_() % count; }
  bool chance(double probability) {
    return static_cast<double>(random_() >> 11) < probability * 0x1p53;
  }
  const SliceLinks& links(uint32_t chunk) const { return slices_[chunk % slices_.size()]; }
  Cursor& cursor(int rank, uint32_t chunk) { return states_[rank].cursors[chunk]; }
  Pair& pair(const Message& message) {
    return pairs_[message.source.rank * world_size_ + message.target.rank];
  }
  const Step& target_step(const Message& message) const {
    return links(message.chunk).step(message.target);
  }

  void prepare(int rank) {
    RankState& state = states_[rank];
    outside_.push_back(rank);
    state.order.resize(chunk_count_);
    std::iota(state.order.begin(), state.order.end(), 0);
    if (!options_.rules.admits_in_order) {
      std::shuffle(state.order.begin(), state.order.end(), random_);
    }
    state.cursors.resize(chunk_count_);
    for (uint32_t chunk = 0; chunk < chunk_count_; ++chunk) {
      const Program& program = links(chunk).program(rank);
      state.cursors[chunk].done.resize(program.steps.size());
    }
  }

  // Does one thing of all that could happen next; false when nothing can.
  bool act() {
    const size_t total = outside_.size() + flights_.size() + reducible_.size();
    if (total == 0) return false;
    size_t choice = pick(total);
    for (int attempt = 0; attempt < 2 && concerns(choice) == slow_rank_; ++attempt) {
      choice = pick(total);
    }
    if (choice < outside_.size()) {
      enter(take(outside_, choice));
    } else if (choice < outside_.size() + flights_.size()) {
      fly(choice - outside_.size());
    } else {
      reduce(take(reducible_, choice - outside_.size() - flights_.size()));
    }
    return true;
  }

  int concerns(size_t choice) const {
    if (choice < outside_.size()) return outside_[choice];
    choice -= outside_.size();
    const uint32_t message = choice < flights_.size()
                                 ? flights_[choice].message
                                 : reducible_[choice - flights_.size()].message;
    return messages_[message].target.rank;
  }

  template <class T>
  static T take(std::vector<T>& items, size_t index) {
    T item = std::move(items[index]);
    items[index] = std::move(items.back());
    items.pop_back();
    return item;
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
      if (program.steps[i].kind == StepKind::send) queue(rank, chunk, i);
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

  void queue(int rank, uint32_t chunk, uint32_t step_index) {
    const SliceLinks& slice = links(chunk);
    const Step& step = slice.program(rank).steps[step_index];
    Cursor& at = cursor(rank, chunk);
    Message message;
    message.chunk = chunk;
    message.source = {rank, at.round, step_index};
    message.target = slice.other_end[rank][step_index];
    message.size = static_cast<double>(step.part_end - step.part_begin) / slice.parts();
    if (step.copy_source) message.copy = read(message);
    ++at.undelivered;
    pair(message).queue.push_back(static_cast<uint32_t>(messages_.size()));
    messages_.push_back(std::move(message));
    post(pair(messages_.back()));
  }

  // Lets queued messages leave, in any order, while the credit lasts.
  void post(Pair& pair) {
    while (!pair.queue.empty()) {
      const size_t index = pick(pair.queue.size());
      const double size = messages_[pair.queue[index]].size;
      if (pair.credit_used + size > options_.credit + kRounding) return;
      pair.credit_used += size;
      launch(take(pair.queue, index));
    }
  }

  void launch(uint32_t message) {
    Flight flight{message, {}};
    if (chance(0.5)) flight.snapshot = read(messages_[message]);
    flights_.push_back(std::move(flight));
  }

  Payload read(const Message& message) {
    if (message.copy) return *message.copy;
    return memory_.read(message.source.rank, message.chunk,
                        links(message.chunk).step(message.source));
  }

  void fly(size_t index) {
    const uint32_t id = flights_[index].message;
    if (!messages_[id].delivered && chance(options_.resend_chance)) {
      launch(id);
      return;
    }
    Flight flight = take(flights_, index);
    Message& message = messages_[id];
    const bool duplicate = message.delivered;
    if (duplicate && options_.rules.drops_duplicates) return;
    Payload payload = flight.snapshot ? std::move(*flight.snapshot) : read(message);
    if (!duplicate) {
      message.delivered = true;
      const bool reduced_later = target_step(message).kind == StepKind::recv_reduce;
      if (reduced_later && (pair(message).scratch += message.size) > options_.credit + kRounding) {
        fail(message, "the scratch of the pair outgrows its credit");
      }
      if (!options_.rules.credits_on_use) return_credit(message);
      acknowledge(message.source.rank, message.chunk);
    }
    land({id, std::move(payload)});
  }

  void acknowledge(int rank, uint32_t chunk) {
    --cursor(rank, chunk).undelivered;
    maybe_finish(rank, chunk);
  }

  void land(Arrival arrival) {
    const Message message = messages_[arrival.message];
    RankState& state = states_[message.target.rank];
    if (!state.entered) {
      state.before_entry.push_back(std::move(arrival));
      return;
    }
    Cursor& at = cursor(message.target.rank, message.chunk);
    const Step& step = target_step(message);
    if (step.kind == StepKind::recv) {
      memory_.land(message.target.rank, message.chunk, step, arrival.payload);
      receive_done(message);
    } else if (at.open && at.round >= message.target.round) {
      reducible_.push_back(std::move(arrival));
    } else {
      at.early[message.target.step].push_back(std::move(arrival));
    }
  }

  void reduce(const Arrival& arrival) {
    const Message message = messages_[arrival.message];
    memory_.reduce(message.target.rank, message.chunk, target_step(message), arrival.payload);
    if (cursor(message.target.rank, message.chunk).done[message.target.step]) return;
    pair(message).scratch -= message.size;
    receive_done(message);
  }

  void receive_done(const Message& message) {
    const int rank = message.target.rank;
    Cursor& at = cursor(rank, message.chunk);
    if (at.done[message.target.step]) return;
    at.done[message.target.step] = true;
    if (options_.rules.credits_on_use) return_credit(message);
    const bool in_progress = at.open && at.round == message.target.round;
    if (in_progress && --at.missing == 0) end_round(rank, message.chunk);
  }

  void return_credit(const Message& message) {
    Pair& of = pair(message);
    of.credit_used -= message.size;
    post(of);
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
  std::mt19937_64 random_;
  const int world_size_;
  const bool is_barrier_;
  const uint32_t chunk_count_;
  RehearsalMemory memory_;
  int slow_rank_ = 0;
  std::vector<Pair> pairs_;  // [source x world size + target]
  std::vector<RankState> states_;
  std::vector<Message> messages_;
  std::vector<int> outside_;       // ranks whose caller has not made the call yet
  std::vector<Flight> flights_;
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
