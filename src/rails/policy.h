// Policy: how one operation's bytes are shared among the rails.
//
// Contract: `shares` depends only on the arguments of this and earlier calls of `shares`, `review`,
// `learn` and `load`: no clock, no I/O, no randomness, no threads; the communicator's loop is the
// only caller. Shares with `lasts` hold for other operations, too, until the rails are looked at
// again. Weights are >= 0, sum to 1 over the rails that are up, and are 0 on a rail that is down. A
// weight table says how the bytes *should* divide; with `pull` set, rails take transfers as fast as
// they really drain and the weights only seed the first choices.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "rails/constants.h"

namespace nezha::rails {

inline constexpr uint32_t kRailsMax = 16;

// The state of one rail when a policy decides.
struct RailSnapshot {
  double rate_bytes_per_s = 0;  // measured drain rate towards the slowest peer, or nominal
  double latency_s = 0;         // small-message one-way estimate
  bool up = true;
  bool measured = true;         // false: the rate comes from single transfers or from the device
};

// Operations are alike if their collective, communicator and bit_width(bytes) are.
struct OpClass {
  Collective collective = Collective::all_reduce;
  uint64_t bytes = 0;
  uint64_t group = 0;  // communicator
  bool leads = false;  // this rank decides for all of its communicator
  uint32_t avoid = 0;  // rails (bit set) that carry nothing of it while another rail is up
};

struct Shares {
  std::array<double, kRailsMax> weight{};
  bool pull = false;
  // A rail that takes the operation's first transfers whatever its weight, because nobody knows any
  // more how fast it is; -1: none.
  int probe = -1;
  // With `pull`: rails (bit set) that carry nothing while another rail is up. They would cost the
  // others more than they carry.
  uint32_t left_out = 0;
  // Short transfers go over whichever rail takes least time for them (rails/transfer_times.h); the
  // weights are for the rest.
  bool quickest = false;
  // Every transfer is timed, so that OpSample::rail_s is measured. Each costs an acknowledgement.
  bool timed = false;
  // The code of the division that the ranks of the communicator agreed on for this operation, and
  // of the one that this rank, if it leads, announces for the next operation like it; 0: none
  // (policies/share_tuner.h).
  uint16_t agreed = 0;
  uint16_t announced = 0;
  // These shares hold for later operations of its class, too: the engine need not ask about those,
  // or tell of them one by one, until another division is announced.
  bool lasts = false;
  uint64_t number = 0;  // of the decision; set by the engine
};

// The outcome of one finished operation, or of a part of a running one: per rail, the bytes this
// rank sent on it and the time for which the rail was needed. With Shares::timed that time is
// measured: each of the operation's transfers on the rail adds the time from its posting, or from
// the acknowledgement of the transfer before it on that rail if that came later, until its own
// acknowledgement. (Not the time from the first posting to the last acknowledgement: rounds depend
// on one another, so a fast rail that waits for a slow one would look just as slow.) Otherwise that
// time is computed: the rail's latency, plus those bytes divided by its drain rate. Samples with
// times that are not finite and positive are ignored.
struct OpSample {
  OpClass op;
  double total_s = 0;        // seconds; the mean if there are several operations
  uint32_t operations = 1;   // this one and earlier ones like it for which a decision lasted
  std::array<double, kRailsMax> rail_s{};
  std::array<uint64_t, kRailsMax> rail_bytes{};
  uint32_t rails = 0;
  bool whole = true;      // the same rails were up from its beginning to its end
  bool reviewed = false;  // the policy was asked for reviews of it
  bool timed = false;     // rail_s is measured
  bool alone = false;     // no other operation of its communicator ran meanwhile
  uint16_t agreed = 0;    // Shares::agreed
  uint16_t announced = 0; // what the leading rank announced for the next operation like it
};

class Policy {
 public:
  virtual ~Policy() = default;
  virtual std::string_view name() const = 0;
  // Decides for an operation that begins.
  virtual Shares shares(const OpClass& op, std::span<const RailSnapshot> rails) = 0;
  // Decides for the rest of a running operation: it has gone on for a while, or other rails are up
  // than before. `since`: the operation's sample since the latest decision about it.
  virtual Shares review(const OpSample& since, std::span<const RailSnapshot> rails) {
    return shares(since.op, rails);
  }
  // Learns from a finished operation. Not called for one with `quickest` shares that sent too
  // little for a monitor, unless a division was agreed or announced in it; nor for one with shares
  // that lasted from an earlier operation, unless a division was announced in it.
  virtual void learn(const OpSample& sample) { (void)sample; }
  // `save` returns as JSON what the policy learned, `load` takes it back. A policy without memory
  // saves "{}", which is not worth a file.
  virtual bool has_memory() const { return false; }
  virtual std::string save() const { return "{}"; }
  virtual Status load(std::string_view json) { (void)json; return Status::ok(); }
  // Why an operation of this class would be divided so: text for a person.
  virtual std::string why(const OpClass& op, std::span<const RailSnapshot> rails) = 0;
};

// How much rails disturb each other (policies/interference.h). rate_lost[i][j]: the part of its
// rate that rail i loses while rail j runs, too.
using RatesLost = std::array<std::array<double, kRailsMax>, kRailsMax>;
struct Interference {
  bool measured = false;    // false: the other fields do not count
  double split_cost_s = 0;  // seconds that an operation takes longer for using several rails
  RatesLost rate_lost{};
};

struct PolicyOptions {
  std::vector<double> weights;   // static: one per rail, any scale
  Interference interference = {};  // for pull and table: when splitting pays
};

// A policy's name and its factory: a module (base/module.h) that brings a policy returns this.
struct PolicyKind {
  static constexpr char kInterface[] = "balancing policy";  // of its module

  std::string_view name;
  Result<std::unique_ptr<Policy>> (*make)(const PolicyOptions&);
};

// `name`: "pull", "table", "static" or "round_robin"; for any other the error is `invalid_argument`
// and lists these. "table" comes from a module of its own: where that is missing the error is
// `unsupported` and says what to install.
Result<std::unique_ptr<Policy>> make_policy(std::string_view name, const PolicyOptions& options);
std::span<const std::string_view> policy_names();

}  // namespace nezha::rails
