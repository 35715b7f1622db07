// Secrets of tests, of which nothing stays in memory, and two ranks that use one.
//
// Contract: test support; gtest says what fails.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>

#include "base/hidden_text.h"
#include "base/random.h"
#include "support/memory_scan.h"
#include "support/world.h"

namespace nezha::testing {

// Letters, each of 16. However few: in pages of their own.
inline HiddenText fresh_text(size_t letters = 32) {
  HiddenText text;
  text.reserve(std::max<size_t>(letters, 16));
  text.resize(letters);
  EXPECT_TRUE(fill_with_random(std::as_writable_bytes(std::span(text)), "a test").is_ok());
  for (char& letter : text) letter = "ghijklmnopqrstuv"[static_cast<unsigned char>(letter) & 15];
  return text;
}

inline MemoryScan scan_for(std::string_view text) {
  return MemoryScan(reinterpret_cast<const std::byte*>(text.data()), text.size());
}

// Two ranks as threads, which have met with `line` in their configuration and work.
class Pair {
 public:
  explicit Pair(const HiddenText& line, const std::string& store = fresh_store()) {
    std::array<std::thread, 2> threads;
    for (int rank = 0; rank < 2; ++rank) {
      threads[static_cast<size_t>(rank)] = std::thread([this, rank, &store, &line] {
        context::ContextRequest request = request_of(rank, 2, store);
        request.config += line;
        auto comm = join(request);
        outcomes_[static_cast<size_t>(rank)] = comm ? use(**comm) : comm.status();
        if (comm) comms_[static_cast<size_t>(rank)] = std::move(*comm);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  // Whether both do, and only those who have the secret can join.
  bool works() const {
    for (const Status& outcome : outcomes_) EXPECT_TRUE(outcome.is_ok()) << outcome.to_string();
    return outcomes_[0].is_ok() && outcomes_[1].is_ok() &&
           comms_[0]->context().stats_json().find(R"("authentication":"secret")") != std::string::npos;
  }

 private:
  std::array<Status, 2> outcomes_;
  std::array<std::unique_ptr<context::Communicator>, 2> comms_;
};

}  // namespace nezha::testing
