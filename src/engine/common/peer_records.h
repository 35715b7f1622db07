// PeerRecords: a record for each peer, by global rank, made when it is first used: a job may have
// thousands of peers, and a rank talks to few of them.
//
// Contract: owned by the object that keeps the records, progress lock held. `of` may throw
// std::bad_alloc.
#pragma once

#include <memory>
#include <memory_resource>
#include <vector>

namespace nezha::engine {

template <class Record>
class PeerRecords {
 public:
  PeerRecords(size_t ranks, std::pmr::memory_resource* memory) : memory_(memory), records_(ranks) {}

  Record& of(int global) {
    std::unique_ptr<Record>& record = records_[static_cast<size_t>(global)];
    if (record == nullptr) record = std::make_unique<Record>(memory_);
    return *record;
  }
  // Null: the record was never used.
  const Record* find(int global) const { return records_[static_cast<size_t>(global)].get(); }
  // Visits the records that were used.
  template <class Visit>
  void visit(Visit visit) const {
    for (const auto& record : records_) {
      if (record != nullptr) visit(*record);
    }
  }
  template <class Visit>
  void visit(Visit visit) {
    for (const auto& record : records_) {
      if (record != nullptr) visit(*record);
    }
  }

 private:
  std::pmr::memory_resource* const memory_;
  std::vector<std::unique_ptr<Record>> records_;
};

}  // namespace nezha::engine
