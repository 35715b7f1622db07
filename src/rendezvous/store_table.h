// StoreTable: what the TCP store's server knows: values, and who waits for which key.
//
// Contract: pure state without sockets, one thread. Values are shared with the answers that carry
// them and count against the budget until the last of those is gone, so no order of requests can
// hold more than the budget.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "rendezvous/tcp_protocol.h"

namespace nezha::rendezvous {

using ClientId = uint64_t;

// A value that is charged to the budget as long as it lives.
class Blob {
 public:
  Blob(WipedText bytes, size_t charge, MemoryBudget& budget)
      : bytes_(std::move(bytes)), charge_(charge), budget_(budget) {}
  ~Blob() { budget_.give_back(charge_); }
  Blob(const Blob&) = delete;
  Blob& operator=(const Blob&) = delete;
  const WipedText& bytes() const { return bytes_; }

 private:
  WipedText bytes_;
  size_t charge_;
  MemoryBudget& budget_;
};

struct Answer {
  ClientId client = 0;
  Code code = Code::ok;
  std::shared_ptr<const Blob> value;  // may be null: no value
};

class StoreTable {
 public:
  explicit StoreTable(MemoryBudget& budget) : budget_(budget) {}

  // Appends the answers that are due: the client's own, unless its get has to wait, and those of
  // clients whose waiting is over. A client that waits asks nothing else.
  void handle(ClientId client, Request request, std::vector<Answer>& answers);
  // The client is gone.
  void forget(ClientId client);

  size_t keys() const { return values_.size(); }
  size_t waiting() const { return waiting_for_.size(); }

 private:
  Code put(const std::string& key, WipedText value, std::vector<Answer>& answers);

  MemoryBudget& budget_;
  std::unordered_map<std::string, std::shared_ptr<const Blob>> values_;
  std::unordered_map<std::string, std::vector<ClientId>> waiters_;
  std::unordered_map<ClientId, std::string> waiting_for_;
};

}  // namespace nezha::rendezvous
