// Failure details: what an error of a group says to programs: which ranks, which operation.
//
// Contract: pure; with the loop's progress lock held, as everything that looks into a group.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/group/group.h"
#include "wire/control_headers.h"

namespace nezha::engine {

// "in all_reduce #3 of 4096 bytes": the oldest operation of the group, for an error's text.
std::string activity_of(const Group& group);

// Details of an error about `ranks` of the group during `call`; none: between operations.
ErrorDetails details_of(const Group& group, const std::optional<OpenCall>& call, std::vector<int> ranks);
// Details of an error about a message, which is called "send" or "recv", as its caller called it.
ErrorDetails details_of_message(const Group& group, bool is_send, const wire::OpDescriptor& op,
                                std::vector<int> ranks);

// Writes what a failure frame carries: at most two ranks, none if there are more.
void write_details(const Status& why, wire::FailureHeader& header);
// `members`: how many ranks the group has; reading ends at a rank that it does not have.
ErrorDetails read_details(const wire::FailureHeader& header, size_t members);

}  // namespace nezha::engine
