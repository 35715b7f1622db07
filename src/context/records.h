// Records: what ranks write into a store for each other, as bytes and back.
//
// Contract: pure, any thread. The bytes may come from anybody who can write into the store: a
// record that is not exactly one of ours, with every number in the range of its meaning, is refused
// as a whole, and reading one never takes more memory than a few times its own size.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/hidden_text.h"
#include "base/status.h"
#include "transport/transport.h"
#include "wire/handshake.h"

namespace nezha::context {

// A rank's record of itself, with which it joins.
struct JoinRecord {
  std::string nonce;
  std::string agreed;  // the configuration that must be equal everywhere
  transport::PeerAddress address;
  std::string key = {};  // the public key (wire/key_pair.h); "" where a secret is configured
};
std::string encode(const JoinRecord& record);
// False when `bytes` are no such record of this version.
bool decode(std::string_view bytes, JoinRecord* record);

// The head of rank 0's welcome to all ranks. The records of all ranks follow in parts (welcome.h).
struct WelcomeRecord {
  std::string session;              // rank 0's nonce: the prefix of this run's keys
  uint64_t sequence = 0;
  std::string agreed;               // as in the JoinRecord of rank 0
  uint64_t parts = 1;
};
std::string encode(const WelcomeRecord& record);
bool decode(std::string_view bytes, WelcomeRecord* record);

// One part of a welcome: the records of consecutive ranks, and what each of them is told.
struct WelcomePart {
  uint64_t first = 0;               // rank
  struct Entry {
    std::string joined;    // a JoinRecord, as bytes
    std::string told = {};  // the job's secret, hidden from other ranks; "": none is handed out
  };
  std::vector<Entry> entries;
};
std::string encode(const WelcomePart& part);
bool decode(std::string_view bytes, WelcomePart* part);

// Returns `record` with a proof that a rank of the job wrote it, for this place (the job's name and
// the key): with another record, place or secret the proof is wrong.
WipedText seal(const wire::Secret& secret, std::string_view place, std::string_view record);
// Checks the proof and takes it off. False when it is wrong; `record` is then unchanged.
bool unseal(const wire::Secret& secret, std::string_view place, std::string_view sealed,
            WipedText* record);

// A rank's report on how connecting went.
struct ReportRecord {
  Status outcome;
  std::vector<std::string> left_out;
};
std::string encode(const ReportRecord& record);
bool decode(std::string_view bytes, ReportRecord* record);

}  // namespace nezha::context
