// Tuner: which of a few ways to do the same thing takes the least time, found out by trying.
//
// Each way is tried for a few operations, then the fastest is taken. The others are tried again later,
// within a budget: trials may cost the time of kTrialsAtOnce operations and kTrialsPart of all the time
// since. A way's time is the mean of its latest samples without the slowest quarter: a host that was busy
// once says nothing.
//
// Operations are divided by it (policies/share_tuner.h), short transfers get their rail by it
// (transfer_times.h).
//
// Contract: pure; owned by its user. Costs are finite, positive and of one unit, such as seconds per
// byte. They may be told late, or not at all. All memory is taken at the beginning.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "rails/constants.h"

namespace nezha::rails {

class Tuner {
 public:
  static constexpr size_t kNone = 31;      // more than any way

  struct Kind {
    // Costs of single operations vary by more than the ways differ, because they are mostly a
    // processor's time: samples are means of kAtOnce, and trials longer.
    bool varied = false;
    // A way other than the preferred one is taken if it is so many times faster.
    double worth_leaving = 1;
    // All ways are tried anew when the one that is taken takes so many times as long as its trial
    // promised.
    double unkept = 1.5;
  };
  Tuner(size_t ways, Kind kind) : Tuner(std::vector<Way>(ways), kind) {}

  // The way of the next operation. `usable`: the ways (bit set) that may be taken now. kNone: nothing is
  // known yet, or the way that was taken is not usable.
  size_t next(uint32_t usable, size_t preferred);
  // The way that next() would return; kNone while a trial runs or one may be due.
  size_t settled() const { return is_settled() && calls_ + 1 < look_at_ ? taken_ : kNone; }
  // So many operations were begun, whatever way they went.
  void passed(uint32_t operations) { calls_ += operations; }
  // `operations` took `cost` each on that way.
  void learn(size_t way, double cost, uint32_t operations = 1);
  // Forgets everything: other ways are usable than before.
  void begin_anew();

  uint64_t calls() const { return calls_; }  // operations begun
  size_t taken() const { return taken_; }
  bool is_trying() const { return tried_ != kNone; }
  // Neither does a trial run, nor is a first one to come.
  bool is_settled() const { return tried_ == kNone && stage_ >= ways_.size(); }
  double usual(size_t way) const;  // the cost; 0: not known
  bool is_known(size_t way) const { return ways_[way].count > 0 || ways_[way].before > 0; }

 private:
  struct Way {
    std::array<float, kSamples> samples{};
    uint32_t count = 0;      // of the samples
    double before = 0;       // the usual cost until a sample counts
    uint32_t uncounted = 0;  // operations that are still to come and do not count
    uint32_t singles = 0;    // varied operations to come that are a sample each
    double sum = 0;          // of the operations that make up the next sample
    uint32_t summed = 0;
    uint32_t trials = 0;
    double spent = 0;        // on its trials so far, in operations of the way that was taken

    void keep(uint32_t kept);
  };

  Tuner(std::vector<Way> ways, Kind kind) : kind_(kind), ways_(std::move(ways)) {}

  uint32_t kept() const { return kind_.varied ? kSamples / 4 : kSamples; }
  uint32_t at_once() const { return kind_.varied ? kAtOnce : 1; }
  size_t next_to_try(uint32_t usable);
  size_t due(uint32_t usable);
  void begin_trial(size_t way);
  void count_anew(size_t way, bool for_longer);
  void end_trial();
  uint32_t trial(size_t way) const;
  double trial_cost(size_t way) const;
  uint32_t excused(size_t way) const;
  bool is_hopeless(size_t way, double cost) const;
  void take_best();
  void watch();

  Kind kind_;
  std::vector<Way> ways_;
  size_t preferred_ = 0;
  uint64_t calls_ = 0;
  uint64_t look_at_ = 0;      // calls: no trial is due before
  double spent_ = 0;          // on all trials that were due
  size_t stage_ = 0;          // of the first trials: the way that is tried next
  size_t tried_ = kNone;
  uint32_t tries_left_ = 0;
  bool in_turns_ = false;     // with the way that is taken
  uint32_t hopeless_ = 0;     // operations of the trial that took far longer than another way does
  size_t taken_ = kNone;
  uint32_t since_taken_ = 0;  // samples of the way that is taken
  double promised_ = 0;       // its cost by its trial
};

}  // namespace nezha::rails
