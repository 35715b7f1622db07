// RankSet: a set of ranks, for marks that are set often and worked off later.
//
// Contract: a plain value; any thread. To visit an empty set costs nothing, however many ranks there are.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace nezha::engine {

class RankSet {
 public:
  explicit RankSet(size_t ranks = 0) : words_((ranks + kBits - 1) / kBits) {}

  bool empty() const { return count_ == 0; }
  bool has(int rank) const { return (words_[word_of(rank)] & bit_of(rank)) != 0; }
  void add(int rank) {
    uint64_t& word = words_[word_of(rank)];
    count_ += (word & bit_of(rank)) == 0;
    word |= bit_of(rank);
  }
  void remove(int rank) {
    uint64_t& word = words_[word_of(rank)];
    count_ -= (word & bit_of(rank)) != 0;
    word &= ~bit_of(rank);
  }
  // Both are of as many ranks.
  void add(const RankSet& more) {
    for (size_t at = 0; at < words_.size() && more.count_ > 0; ++at) {
      count_ += static_cast<size_t>(std::popcount(more.words_[at] & ~words_[at]));
      words_[at] |= more.words_[at];
    }
  }
  void clear() {
    if (count_ > 0) words_.assign(words_.size(), 0);
    count_ = 0;
  }
  template <class Visit>
  void each(Visit visit) const {
    any([&](int rank) { return visit(rank), false; });
  }
  // Visits the ranks in ascending order, and higher ones that are added meanwhile, too. `visit(rank)`
  // says whether the rank stays in the set.
  template <class Visit>
  void visit(Visit visit) {
    for (size_t at = 0; at < words_.size() && count_ > 0; ++at) {
      for (uint64_t ahead = ~uint64_t{0}; (words_[at] & ahead) != 0;) {
        const int bit = std::countr_zero(words_[at] & ahead);
        ahead = ~uint64_t{1} << bit;
        const int rank = static_cast<int>(at * kBits) + bit;
        if (!visit(rank)) remove(rank);
      }
    }
  }
  // Visits the ranks in ascending order and takes them out of the set.
  template <class Visit>
  void take_all(Visit visit) {
    this->visit([&](int rank) { return visit(rank), false; });
  }
  template <class Test>
  bool any(Test test) const {
    for (size_t at = 0; at < words_.size() && count_ > 0; ++at) {
      for (uint64_t left = words_[at]; left != 0; left &= left - 1) {
        if (test(static_cast<int>(at * kBits) + std::countr_zero(left))) return true;
      }
    }
    return false;
  }

 private:
  static constexpr size_t kBits = 64;
  static size_t word_of(int rank) { return static_cast<size_t>(rank) / kBits; }
  static uint64_t bit_of(int rank) { return uint64_t{1} << (static_cast<size_t>(rank) % kBits); }

  std::vector<uint64_t> words_;
  size_t count_ = 0;
};

}  // namespace nezha::engine
