#include "planted/memory.h"

#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "memory/host_memory.h"
#include "memory/operation.h"
#include "planted/random_steps.h"
#include "support/memory_case.h"
#include "support/shared_area.h"

namespace nezha::simulation {
namespace {

using memory::Area;
using memory::Case;
using memory::Operation;

std::string text_of(const Case& at) {
  return std::string(name_of(at.collective)) + " of " + std::to_string(at.count);
}

Case random_case(std::mt19937_64& random, int ranks) {
  constexpr Collective kAll[] = {
      Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter, Collective::broadcast,
      Collective::reduce,     Collective::gather,     Collective::scatter,        Collective::all_to_all,
      Collective::barrier};
  const uint64_t slot = Area::slot_bytes(ranks) / sizeof(int64_t);
  Case at;
  at.collective = kAll[random() % std::size(kAll)];
  switch (random() % 6) {
    case 0: at.count = slot * (2 + random() % 4) + random() % 9; break;  // more than the slots, or not
    case 1: at.count = slot / static_cast<uint64_t>(ranks) * (5 + random() % 2); break;
    case 2: at.count = 1025 + random() % 3000; break;  // long enough that each reduces a part
    default: at.count = random() % 1024;
  }
  at.root = static_cast<int>(random() % static_cast<uint64_t>(ranks));
  const bool scatters_sums = at.collective == Collective::reduce_scatter;
  const bool adds_up = at.collective == Collective::all_reduce || scatters_sums;
  at.uneven = (at.collective == Collective::all_gather || scatters_sums) && random() % 2 == 0;
  at.in_place = at.collective == Collective::all_reduce && random() % 2 == 0;
  if (at.collective == Collective::broadcast) at.in_place = true;
  if (adds_up && random() % 3 == 0) at.factor = 3;
  return at;
}

// ------------------------------------------------------------------------- operations of one group

class Job {
 public:
  explicit Job(uint64_t seed) : random_(seed), ranks_(2 + static_cast<int>(random_() % 4)) {
    for (int i = 0; i < 12; ++i) cases_.push_back(random_case(random_, ranks_));
    for (int rank = 0; rank < ranks_; ++rank) {
      members_.push_back(std::make_unique<Member>(*this, rank));
    }
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  std::string run() {
    const auto is_over = [&](const Member& member) {
      return member.next == cases_.size() && !member.operation;
    };
    return take_random_steps(members_, random_, wrong_, is_over, [&](Member& member) { step(member); });
  }

 private:
  struct Member final : memory::Bells {
    Member(Job& of, int number)
        : job(of), rank(number), area(of.bytes_.get(), of.ranks_, number, *this) {}
    void ring(uint64_t members) override { job.rung(members); }

    Job& job;
    const int rank;
    Area area;
    size_t next = 0;
    std::unique_ptr<memory::Rank> call;
    std::optional<Operation> operation;
    bool sleeps = false;
    bool moves = false;  // a step of it is under way
  };

  void step(Member& member) {
    member.moves = true;
    member.area.wake();
    if (!member.operation) {
      member.call = std::make_unique<memory::Rank>(cases_[member.next], ranks_, member.rank);
      member.operation.emplace(member.area, member.call->call(member.next));
      ++member.next;
    }
    // Some go to sleep at once: who was missing may have come before their last look.
    const bool moved = random_() % 4 != 0 && member.operation->advance();
    if (!moved && !member.operation->is_over()) member.sleeps = !member.operation->sleep();
    if (member.operation->disagrees() >= 0) say(member, "takes another's call for a different one");
    if (member.operation->is_over()) {
      if (member.call->out != member.call->want) say(member, "has a wrong result");
      member.operation.reset();
      member.sleeps = false;
    }
    member.moves = false;
  }
  void rung(uint64_t members) {
    for (const auto& member : members_) {
      if ((members >> member->rank & 1) == 0) continue;
      member->sleeps = false;
      if (!member->moves && member->operation && wrong_.empty()) step(*member);
    }
  }
  void say(const Member& member, const char* what) {
    if (!wrong_.empty()) return;
    wrong_ = "rank " + std::to_string(member.rank) + " of " + std::to_string(ranks_) + " " + what + ": " +
             text_of(cases_[member.next - 1]);
  }

  std::mt19937_64 random_;
  const int ranks_;
  const memory::AreaBytes bytes_{ranks_};
  std::vector<Case> cases_;
  std::vector<std::unique_ptr<Member>> members_;
  std::string wrong_;
};

// ------------------------------------------------------------------------------ groups of one host

// Each member comes, calls once and leaves when it wants; several groups live at a time.
class Groups {
 public:
  explicit Groups(uint64_t seed) : random_(seed) {
    const int ranks = 3 + static_cast<int>(random_() % 3);
    std::vector<int> numbers;
    for (int rank = 0; rank < ranks; ++rank) numbers.push_back(2 * rank + 1);
    Descriptor file;
    for (int index = 0; index < ranks; ++index) {
      memory::Host host;
      host.ranks = numbers;
      host.index = index;
      host.bells.resize(numbers.size());
      auto memory = index == 0 ? memory::HostMemory::create(numbers, false, &file)
                               : SealedMemory::adopt(file, memory::HostMemory::bytes(numbers.size()));
      if (!memory) {
        wrong_ = memory.status().to_string();
        return;
      }
      host.memory = std::move(*memory);
      host.file = Descriptor(dup(file.get()));
      hosts_.push_back(std::make_unique<memory::HostMemory>(std::move(host)));
    }
  }

  std::string run() {
    // So many that in most runs two of them are looked for from the same place of the table.
    constexpr uint32_t kMade = 120;
    for (uint32_t made = 0; wrong_.empty() && (made < kMade || !groups_.empty());) {
      if (made < kMade && groups_.size() < 3) groups_.push_back(make(made++));
      const size_t index = random_() % groups_.size();
      step(*groups_[index]);
      const auto& members = groups_[index]->members;
      if (std::all_of(members.begin(), members.end(), [](const Member& each) { return each.left; })) {
        groups_.erase(groups_.begin() + static_cast<std::ptrdiff_t>(index));
      }
    }
    return wrong_;
  }

 private:
  struct Member {
    size_t host = 0;
    Area* area = nullptr;
    std::unique_ptr<memory::Rank> call;
    std::optional<Operation> operation;
    bool left = false;
  };
  struct Group {
    uint64_t comm = 0;
    std::vector<int> numbers;
    Case at;
    std::vector<Member> members;
  };

  std::unique_ptr<Group> make(uint64_t comm) {
    auto group = std::make_unique<Group>();
    std::vector<size_t> order(hosts_.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random_() % i]);
    order.resize(2 + random_() % (order.size() - 1));
    group->comm = comm;
    group->at = random_case(random_, static_cast<int>(order.size()));
    for (const size_t host : order) {
      group->numbers.push_back(2 * static_cast<int>(host) + 1);
      group->members.emplace_back().host = host;
    }
    return group;
  }
  void step(Group& group) {
    Member& member = group.members[random_() % group.members.size()];
    const int ranks = static_cast<int>(group.members.size());
    if (member.left) return;
    if (member.area == nullptr) {
      member.area = hosts_[member.host]->area_of(group.comm, group.numbers);
      if (member.area == nullptr) return say(group, "has no area");
      member.call = std::make_unique<memory::Rank>(group.at, ranks, member.area->rank());
      Call call = member.call->call(0);
      call.comm = group.comm;
      member.operation.emplace(*member.area, call);
    }
    member.operation->advance();
    if (member.operation->disagrees() >= 0) return say(group, "finds the call of another group");
    if (!member.operation->is_over()) return;
    if (member.call->out != member.call->want) say(group, "has a wrong result");
    member.operation.reset();
    hosts_[member.host]->leave(*member.area);
    member.left = true;
  }
  using Call = memory::Call;
  void say(const Group& group, const char* what) {
    if (!wrong_.empty()) return;
    wrong_ = "group " + std::to_string(group.comm) + " " + what + ": " + text_of(group.at);
  }

  std::mt19937_64 random_;
  std::vector<std::unique_ptr<memory::HostMemory>> hosts_;
  std::vector<std::unique_ptr<Group>> groups_;
  std::string wrong_;
};

}  // namespace

std::string run_memory(uint64_t seed) { return seed % 2 == 0 ? Job(seed).run() : Groups(seed).run(); }

}  // namespace nezha::simulation
