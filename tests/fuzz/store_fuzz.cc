// What a stranger can send to the TCP store's server: any bytes, on several connections, in any
// order. Nothing may crash, and memory must stay within the budget and come back in the end.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "fuzz/fuzz.h"
#include "rendezvous/address.h"
#include "rendezvous/store_table.h"
#include "rendezvous/tcp_protocol.h"

namespace {

using namespace nezha::rendezvous;

constexpr size_t kConnections = 4;
constexpr size_t kBudget = 4096;  // small, so that inputs reach its end
constexpr int kPiecesMax = 64;    // enough to reach it, and quick

// One connection after its magic, so that the fuzzer need not guess it.
std::unique_ptr<RequestReader> greeted(MemoryBudget& budget) {
  auto reader = std::make_unique<RequestReader>(budget);
  NEZHA_CHECK(reader->feed(kMagic) == RequestReader::Outcome::greeted);
  return reader;
}

// Random bytes seldom make one. `number` chooses the operation and one of four keys.
std::string sound_request(size_t number, size_t value_bytes) {
  const auto operation = static_cast<Operation>(number % 4 + 1);
  const bool has_value = operation == Operation::set || operation == Operation::set_if_absent;
  if (!has_value) value_bytes = 0;
  const auto head = encode_request_head(operation, 1, value_bytes);
  return std::string(head.data(), head.size()) + static_cast<char>('a' + number / 4) +
         std::string(value_bytes, 'v');
}

class Server {
 public:
  Server() {
    for (auto& reader : readers_) reader = greeted(budget_);
  }

  ~Server() {
    for (auto& reader : readers_) reader.reset();
    answers_.clear();
    table_.reset();
    NEZHA_CHECK(budget_.used == 0);
  }

  void receive(size_t connection, std::string_view bytes) {
    while (!bytes.empty()) {
      auto& reader = readers_[connection];
      const size_t part = std::min(bytes.size(), reader->wanted());
      NEZHA_CHECK(part > 0);
      const auto outcome = reader->feed(bytes.substr(0, part));
      bytes.remove_prefix(part);
      NEZHA_CHECK(budget_.used <= budget_.limit);
      if (outcome == RequestReader::Outcome::refused) {
        reconnect(connection);
      } else if (outcome == RequestReader::Outcome::request) {
        handle(connection);
      }
    }
  }

  void reconnect(size_t connection) {
    table_->forget(connection);
    waiting_[connection] = false;
    readers_[connection] = greeted(budget_);
  }

 private:
  void handle(size_t connection) {
    // A connection that asks while its get waits is one that the server would not be reading.
    if (waiting_[connection]) table_->forget(connection);
    const size_t before = answers_.size();
    table_->handle(connection, readers_[connection]->take_request(), answers_);
    waiting_[connection] = true;
    for (size_t i = before; i < answers_.size(); ++i) {
      NEZHA_CHECK(answers_[i].client < kConnections && waiting_[answers_[i].client]);
      waiting_[answers_[i].client] = false;
    }
    NEZHA_CHECK(budget_.used <= budget_.limit);
    NEZHA_CHECK(table_->waiting() <= kConnections);
    // Some clients take their answers late.
    if (answers_.size() > 8) answers_.clear();
  }

  MemoryBudget budget_{kBudget, 0};
  std::unique_ptr<StoreTable> table_ = std::make_unique<StoreTable>(budget_);
  std::unique_ptr<RequestReader> readers_[kConnections];
  bool waiting_[kConnections] = {};
  std::vector<Answer> answers_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view input(reinterpret_cast<const char*>(data), size);
  (void)parse_store_address(input, true);
  MemoryBudget budget{kBudget, 0};
  RequestReader stranger(budget);
  if (!input.empty()) (void)stranger.feed(input.substr(0, stranger.wanted()));
  // Where a proof is wanted, nothing is a request before all of it has come.
  RequestReader unproved(budget, true);
  NEZHA_CHECK(unproved.feed(kMagic) == RequestReader::Outcome::greeted);
  size_t said = 0;
  for (std::string_view left = input; !left.empty() && said < kProofBytes;) {
    const std::string_view part = left.substr(0, std::min<size_t>(unproved.wanted(), 1 + left[0] % 7u));
    said += part.size();
    const auto outcome = unproved.feed(part);
    NEZHA_CHECK(outcome == (said == kProofBytes ? RequestReader::Outcome::proof
                                                : RequestReader::Outcome::more));
    left.remove_prefix(part.size());
  }

  // First byte of a piece: the connection, what happens on it, and a number.
  Server server;
  for (int piece_number = 0; piece_number < kPiecesMax && !input.empty(); ++piece_number) {
    const auto control = static_cast<uint8_t>(input.front());
    const size_t connection = control % kConnections;
    const size_t number = control >> 4;
    input.remove_prefix(1);
    switch (control >> 2 & 3) {
      case 0:
        server.reconnect(connection);
        break;
      case 1: {
        const std::string_view piece = input.substr(0, number);
        input.remove_prefix(piece.size());
        server.receive(connection, piece);
        break;
      }
      default:
        server.receive(connection, sound_request(number, (control & 4) != 0 ? 700 : 0));
    }
  }
  return 0;
}
