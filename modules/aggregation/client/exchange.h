// Exchange: every rank of a group says something to all others: an all_gather of texts.
//
// Contract
//   Owner    an object that drives the loop. One exchange at a time; meanwhile the group is used for
//            nothing else.
//   Errors   those of the group.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/group_calls.h"

namespace nezha::aggregation {

class Exchange {
 public:
  Exchange(engine::GroupCalls& calls, engine::Group& group) : calls_(calls), group_(group) {}

  // `same_length`: the texts of all ranks have the same length, and all ranks know that. Otherwise
  // a first round tells the lengths.
  void start(std::string mine, bool same_length) NEZHA_REQUIRES_LOCK;
  bool is_running() const { return round_ != Round::none; }
  bool is_due() const { return is_running() && work_.is_done(); }
  // Continues the exchange; true when it is over, whether or not it succeeded.
  bool poll() NEZHA_REQUIRES_LOCK;
  const Status& status() const { return status_; }
  // The text of that rank, once the exchange has succeeded.
  std::string_view of(int rank) const {
    const auto at = static_cast<size_t>(rank);
    return std::string_view(all_).substr(begins_[at], lengths_[at]);
  }

 private:
  enum class Round : uint8_t { none, lengths, texts };
  void gather_lengths() NEZHA_REQUIRES_LOCK;
  void gather_texts() NEZHA_REQUIRES_LOCK;
  void post(engine::OpRequest& request) NEZHA_REQUIRES_LOCK;
  void finish(const Status& status);

  engine::GroupCalls& calls_;
  engine::Group& group_;
  Round round_ = Round::none;
  std::string mine_;
  std::string all_;
  std::vector<uint64_t> lengths_;
  std::vector<uint64_t> begins_;
  engine::Work work_;
  Status status_;
};

}  // namespace nezha::aggregation
