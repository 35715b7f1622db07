// JobKey: what one job has of the aggregation nodes' key: its number, and the key that follows from both.
//
// Contract: pure; any thread. Launchers derive it and hand it to the ranks as one word; ranks never have
// the nodes' own key, from which every job's follows. `job_key_from_text` answers `invalid_argument`
// without a part of what it was given.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "wire/handshake.h"

namespace nezha::aggregation {

struct JobKey {
  uint64_t job = 0;
  wire::Secret key{};
};

// HMAC(key, "aggregation job" | job): whoever has it can join that job and no other.
wire::Secret job_key_of(const wire::Secret& key, uint64_t job);
// Of a job's name, such as the number that a scheduler gave it: the first 8 bytes of its SHA-256.
uint64_t job_number_of(std::string_view name);
// "16 hexadecimal digits:64 hexadecimal digits".
std::string to_text(const JobKey& key);
Result<JobKey> job_key_from_text(std::string_view text);

}  // namespace nezha::aggregation
