// Policy: how one operation's bytes are shared among the rails.
//
// Contract: `shares` depends on nothing but the arguments of this and earlier calls of `shares`,
// `review`, `learn` and `load`: no clock, no I/O, no randomness, no threads; the communicator's loop is
// the only caller. What it answers with `lasts` holds for other operations, too, until the rails are
// looked at again. Weights are >= 0, sum to 1 over the rails that are up, and are 0 on a rail that is
// not. A weight table says how the bytes *should* divide; with `pull` set, rails take transfers as fast
// as they really drain and the weights only seed the first choices.
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

namespace nezha::control {

inline constexpr uint32_t kRailsMax = 16;
// Operations below take mostly the processors' time.
inline constexpr uint64_t kShortBytes = 8 * 1024;

// What is known of one rail when the decision is made.
struct RailSnapshot {
  double rate_bytes_per_s = 0;  // measured drain rate towards the slowest peer, or nominal
  double latency_s = 0;         // small-message one-way estimate
  bool up = true;
  bool measured = true;         // or else the rate is what single transfers or the device say
};

// Operations are alike if their collective, communicator and bit_width(bytes) are.
struct OpClass {
  Collective collective = Collective::all_reduce;
  uint64_t bytes = 0;
  uint64_t group = 0;  // communicator
  bool leads = false;  // this rank decides for all of its communicator
  uint32_t avoid = 0;  // rails (bit set) that take nothing of it as long as another one is up
};

struct Shares {
  std::array<double, kRailsMax> weight{};
  bool pull = false;
  // A rail that takes the operation's first transfers whatever its weight, because nobody knows any
  // more how fast it is; -1: none.
  int probe = -1;
  // With `pull`: rails (bit set) that take nothing as long as another one is up. They cost the others
  // more than they carry.
  uint32_t left_out = 0;
  // Short transfers go over whichever rail takes least time for them (control/transfer_times.h); the
  // weights are for the rest.
  bool quickest = false;
  // Every transfer is timed, so that OpSample::rail_s is measured. Each costs an acknowledgement.
  bool timed = false;
  // What the ranks of the communicator agreed on for this operation, and, where this rank leads, for the
  // next one like it; 0: nothing (policies/share_tuner.h).
  uint16_t agreed = 0;
  uint16_t announced = 0;
  // The same for operations like it, of which nobody need ask or learn until something else is announced.
  bool lasts = false;
  uint64_t number = 0;  // of the decision; the engine's
};

// What happened to one finished operation: per rail, the bytes this rank sent on it and the time for
// which the rail was needed. That is measured where Shares::timed asked for it: the sum over its
// transfers of the time from the posting, or from what landed on that rail before, until the
// acknowledgement. (Not the time from the first posting to the last acknowledgement: rounds depend on one
// another, so a fast rail that waits for a slow one would look just as slow.) Otherwise it is computed:
// the rail's latency, and those bytes at the rate at which it drained. Samples with times that are no
// times are ignored.
struct OpSample {
  OpClass op;
  double total_s = 0;        // of several operations: their mean
  uint32_t operations = 1;   // it, and those like it before it for which a decision lasted
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
  // For an operation that begins.
  virtual Shares shares(const OpClass& op, std::span<const RailSnapshot> rails) = 0;
  // For the rest of one that is running: it has gone on for a while, or other rails are up than before.
  // `since`: what it did since it was last decided about.
  virtual Shares review(const OpSample& since, std::span<const RailSnapshot> rails) {
    return shares(since.op, rails);
  }
  // Of an operation that is over; not of one with `quickest` shares that sent too little for a monitor,
  // or with shares that lasted from one before, unless something was announced in it.
  virtual void learn(const OpSample& sample) { (void)sample; }
  // What was learned, as JSON, and back. A policy without memory saves "{}", which is not worth a file.
  virtual bool has_memory() const { return false; }
  virtual std::string save() const { return "{}"; }
  virtual Status load(std::string_view json) { (void)json; return Status::ok(); }
  // Why an operation of this class would be divided so: text for a person.
  virtual std::string why(const OpClass& op, std::span<const RailSnapshot> rails) = 0;
};

// What rails cost each other (policies/interference.h). rate_lost[i][j]: the part of its rate that rail
// i loses while rail j runs, too.
using RatesLost = std::array<std::array<double, kRailsMax>, kRailsMax>;
struct Interference {
  bool measured = false;    // or else nothing else counts
  double split_cost_s = 0;  // what an operation costs more for using several rails
  RatesLost rate_lost{};
};

struct PolicyOptions {
  std::vector<double> weights;   // static: one per rail, any scale
  Interference interference = {};  // pull and table: when splitting pays
};

// A policy that can be made: what a module (base/module.h) that brings one returns.
struct PolicyKind {
  static constexpr char kInterface[] = "balancing policy";  // of its module

  std::string_view name;
  Result<std::unique_ptr<Policy>> (*make)(const PolicyOptions&);
};

// "pull", "table", "static", "round_robin"; `invalid_argument` listing the names otherwise. "table" comes
// from a module of its own: `unsupported`, and what to install, where that is missing.
Result<std::unique_ptr<Policy>> make_policy(std::string_view name, const PolicyOptions& options);
std::span<const std::string_view> policy_names();

}  // namespace nezha::control
