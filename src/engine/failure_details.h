// What an error of a group says to programs: which ranks, which operation.
//
// Contract: pure; with the loop's progress lock held, as everything that looks into a group.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "engine/group.h"
#include "wire/frame.h"

namespace nezha::engine {

// "in all_reduce #3 of 4096 bytes": what the group is at, for an error.
std::string activity_of(const Group& group);

// About `ranks` of the group, while `execution` was running (null: between operations).
ErrorDetails details_of(const Group& group, const Execution* execution, std::vector<int> ranks);
// The same of the oldest operation.
ErrorDetails details_of(const Group& group, std::vector<int> ranks);
// Of a message: "send" or "recv", as its caller knows it.
ErrorDetails details_of_message(const Group& group, bool is_send, const wire::OpDescriptor& op,
                                std::vector<int> ranks);

// What a failure frame carries of it (wire/frame.h): at most two ranks, and none where there are more.
void write_details(const Status& why, wire::FrameHeader& header);
// `members`: how many ranks the group has; a frame that names others names none.
ErrorDetails read_details(const wire::FrameHeader& header, size_t members);

}  // namespace nezha::engine
