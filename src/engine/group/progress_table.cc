#include "engine/group/progress_table.h"

namespace nezha::engine {
namespace {

std::string text_of(const wire::OpDescriptor& op, uint64_t op_seq) {
  return std::string(name_of(op)) + " #" + std::to_string(op_seq);
}

}  // namespace

std::string ProgressTable::describe_ranks(const Group& group, uint64_t op_seq) const {
  std::string absent;
  std::string present;
  size_t told = 0;
  for (int rank = 0; rank < group.world_size(); ++rank) {
    if (rank == group.rank) continue;
    const Member& member = group.members[static_cast<size_t>(rank)];
    const Progress& last = of(member);
    const bool came = has_called(member, op_seq);
    if (++told > kRanksTold) continue;
    std::string& to = came ? present : absent;
    to += "; rank " + std::to_string(rank);
    if (came) {
      to += member.said.op_seq > op_seq || !member.said.open ? " is through" : " is in it";
      if (member.said.open && member.said.op_seq == op_seq && member.said.waits_for >= 0) {
        const int awaited = group.rank_of_global[static_cast<size_t>(member.said.waits_for)];
        if (awaited >= 0) to += " and waits for rank " + std::to_string(awaited);
      }
    } else if (last.at == 0) {
      to += " was not heard of";
    } else {
      to += " has not called it: ";
      to += !last.known ? std::string("it has called nothing yet")
                        : (last.open ? "it is in " : "its last was ") + text_of(last.op, last.op_seq) +
                              (last.comm == group.comm ? "" : " of communicator " +
                                                                  std::to_string(last.comm));
    }
  }
  if (told > kRanksTold) present += "; and " + std::to_string(told - kRanksTold) + " more ranks";
  return absent + present;
}

}  // namespace nezha::engine
