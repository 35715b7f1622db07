// JobKey: the key of one job at the aggregation nodes: the job's number, and the key that is
// derived from it and the nodes' key.
//
// Contract: pure; any thread. Launchers derive it and hand it to the ranks as one word; ranks never
// have the nodes' own key, from which the keys of all jobs are derived. The message of
// `invalid_argument` from `job_key_from_text` contains no part of the text.
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

// HMAC(key, "aggregation job" | job): whoever has the result can join that job and no other.
wire::Secret job_key_of(const wire::Secret& key, uint64_t job);
// The number of the job with that name, such as the number that a scheduler gave it: the first 8
// bytes of the name's SHA-256.
uint64_t job_number_of(std::string_view name);
// "16 hexadecimal digits:64 hexadecimal digits".
std::string to_text(const JobKey& key);
Result<JobKey> job_key_from_text(std::string_view text);

}  // namespace nezha::aggregation
