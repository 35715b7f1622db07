#include "rendezvous/store_table.h"

#include <algorithm>

namespace nezha::rendezvous {
namespace {

// The memory that an entry takes besides its bytes: nodes, control block, strings.
constexpr size_t kEntryBytes = 256;

}  // namespace

void StoreTable::handle(ClientId client, Request request, std::vector<Answer>& answers) {
  if (request.too_much) {
    answers.push_back({client, Code::exhausted, nullptr});
    return;
  }
  const auto entry = values_.find(request.key);
  switch (request.operation) {
    case Operation::set:
      answers.push_back({client, put(request.key, std::move(request.value), answers), nullptr});
      return;
    case Operation::set_if_absent: {
      if (entry != values_.end()) {
        answers.push_back({client, Code::ok, entry->second});
        return;
      }
      const Code code = put(request.key, std::move(request.value), answers);
      answers.push_back({client, code, code == Code::ok ? values_.at(request.key) : nullptr});
      return;
    }
    case Operation::get:
      if (entry != values_.end()) {
        answers.push_back({client, Code::ok, entry->second});
        return;
      }
      waiters_[request.key].push_back(client);
      waiting_for_.emplace(client, std::move(request.key));
      return;
    case Operation::remove:
      if (entry != values_.end()) values_.erase(entry);
      answers.push_back({client, Code::ok, nullptr});
      return;
  }
}

Code StoreTable::put(const std::string& key, WipedText value, std::vector<Answer>& answers) {
  const size_t charge = key.size() + value.size() + kEntryBytes;
  if (!budget_.charge(charge)) return Code::exhausted;
  auto blob = std::make_shared<const Blob>(std::move(value), charge, budget_);
  values_.insert_or_assign(key, blob);
  const auto waiters = waiters_.find(key);
  if (waiters == waiters_.end()) return Code::ok;
  for (const ClientId client : waiters->second) {
    answers.push_back({client, Code::ok, blob});
    waiting_for_.erase(client);
  }
  waiters_.erase(waiters);
  return Code::ok;
}

void StoreTable::forget(ClientId client) {
  const auto waiting = waiting_for_.find(client);
  if (waiting == waiting_for_.end()) return;
  const auto waiters = waiters_.find(waiting->second);
  std::erase(waiters->second, client);
  if (waiters->second.empty()) waiters_.erase(waiters);
  waiting_for_.erase(waiting);
}

}  // namespace nezha::rendezvous
