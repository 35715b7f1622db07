#include "context/communicator.h"

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <new>
#include <numeric>

#include "base/file.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "base/log.h"
#include "context/argument_checks.h"
#include "engine/common/comm_number.h"

namespace nezha::context {

using engine::CommNumber;
using progress::Loop;

namespace {

constexpr Nanoseconds kDiskPatience = 2 * kSecond;

Status check_members(std::span<const int> ranks, int own, int world_size) {
  std::vector<bool> seen(static_cast<size_t>(world_size));
  for (const int rank : ranks) {
    NEZHA_RETURN_IF_ERROR(check_rank("create", "rank", rank, world_size));
    if (seen[static_cast<size_t>(rank)]) {
      return error(Code::invalid_argument, "create: rank %d is listed twice; pass each rank once", rank);
    }
    seen[static_cast<size_t>(rank)] = true;
  }
  if (seen[static_cast<size_t>(own)]) return Status::ok();
  return error(Code::invalid_argument, "create: rank %d is not one of the %zu ranks; only members call "
               "it", own, ranks.size());
}

}  // namespace

Result<std::unique_ptr<Communicator>> Communicator::world(std::shared_ptr<Context> context) {
  auto policy = context->make_policy();
  if (!policy) return policy.status();
  engine::GroupRequest request;
  request.members.resize(static_cast<size_t>(context->world_size()));
  std::iota(request.members.begin(), request.members.end(), 0);
  request.policy = std::move(*policy);
  request.costs = context->costs();
  engine::Group* group = nullptr;
  {
    Loop::Lock lock(context->loop());
    auto created = context->groups().create_group(std::move(request));
    if (!created) return created.status();
    group = *created;
  }
  NEZHA_RETURN_IF_ERROR(context->start());
  std::unique_ptr<Communicator> world(new Communicator(std::move(context)));
  {
    Loop::Lock lock(world->context_->loop());
    NEZHA_RETURN_IF_ERROR(world->adopt(*group));
  }
  world->load_table_file();
  if (world->aggregation_ != nullptr) world->aggregation_->settle();
  if (interrupted()) {
    return error(Code::timed_out, "rank %d was interrupted while its job began", world->rank_);
  }
  return world;
}

Communicator::~Communicator() {
  if (group_ != nullptr) leave();
}

void Communicator::leave() {
  save_table_file();
  Loop::Lock lock(context_->loop());
  aggregation_.reset();
  context_->groups().destroy_group(*group_);
}

// With members.
Status Communicator::adopt(engine::Group& group) {
  group_ = &group;
  rank_ = group.rank;
  world_size_ = group.world_size();
  if (context_->aggregation() == nullptr || world_size_ < 2) return Status::ok();
  auto aggregation = context_->aggregation()->add(group);
  if (!aggregation) return aggregation.status();
  aggregation_ = std::move(*aggregation);
  return Status::ok();
}

void Communicator::abort() {
  const Loop::Visit visit(context_->loop());
  const Status why = error(Code::aborted, "rank %d aborted communicator %" PRIu64, rank_, group_->comm);
  context_->groups().abort(*group_, why);
}

// -------------------------------------------------------------------------- parts of the world

Result<std::unique_ptr<Communicator>> Communicator::adopt(engine::GroupRequest request) {
  auto policy = context_->make_policy();
  if (!policy) return policy.status();
  request.policy = std::move(*policy);
  request.costs = context_->costs();
  std::unique_ptr<Communicator> part(new Communicator(context_));
  Loop::Lock lock(context_->loop());
  auto group = context_->groups().create_group(std::move(request));
  if (!group) return group.status();
  if ((*group)->world_size() > 0) NEZHA_RETURN_IF_ERROR(part->adopt(**group));
  part->group_ = *group;
  return part;
}

// The group exists here, without members, before any rank can finish the exchange below, so the
// first frame of a quicker rank finds it.
Result<std::unique_ptr<Communicator>> Communicator::announce(int color) {
  engine::GroupRequest request;
  CommNumber number(CommNumber::Maker::split, group_->comm);
  request.comm = number.add(splits_).add(static_cast<uint64_t>(color)).announced();
  return adopt(std::move(request));
}

// Frames of quicker ranks are parked.
Result<std::unique_ptr<Communicator>> Communicator::create(std::span<const int> ranks,
                                                           std::string_view name) {
  NEZHA_RETURN_IF_ERROR(check_members(ranks, rank_, world_size_));
  engine::GroupRequest request;
  CommNumber number(CommNumber::Maker::create, group_->comm);
  number.add(name);
  for (const int rank : ranks) number.add(static_cast<uint64_t>(rank));
  auto generation = next_generation(number.parked());
  if (!generation) return generation.status();
  request.comm = number.add(*generation).parked();
  for (const int rank : ranks) {
    request.members.push_back(group_->members[static_cast<size_t>(rank)].global_rank);
  }
  return adopt(std::move(request));
}

// How many of the same name and ranks came before: the other members count them, too, whatever becomes of
// one here. A rank that could not count one would not find those that follow.
Result<uint64_t> Communicator::next_generation(uint64_t key) {
  try {
    std::lock_guard lock(generations_mutex_);
    return generations_[key]++;
  } catch (const std::bad_alloc&) {
    const Status why = nothrow_error(Code::exhausted, "rank %d: no memory to count a communicator that "
                                     "was created of this one", rank_);
    Loop::Lock lock(context_->loop());
    context_->groups().fail(*group_, why, true);
    return why;
  }
}

Result<std::unique_ptr<Communicator>> Communicator::shrink(double timeout_s) {
  if (open_batch() != nullptr) {
    return error(Code::invalid_argument, "rank %d: shrink inside a group; call it after group_end or "
                 "group_cancel", rank_);
  }
  auto policy = context_->make_policy();
  if (!policy) return policy.status();
  Loop& loop = context_->loop();
  const Nanoseconds deadline =
      deadline_after(loop.clock(), timeout_s > 0 ? timeout_s : context_->timeout_s());
  std::unique_ptr<Communicator> survivors(new Communicator(context_));
  engine::ShrinkCall call;
  {
    Loop::Lock lock(loop);
    NEZHA_RETURN_IF_ERROR(
        context_->groups().submit_shrink(*group_, std::move(*policy), deadline, call));
  }
  wait_or_abort(call.work);
  if (!call.work.status()) return call.work.status();
  Loop::Lock lock(loop);
  NEZHA_RETURN_IF_ERROR(survivors->adopt(*call.group));
  return survivors;
}

Result<std::unique_ptr<Communicator>> Communicator::split(int color, int key) {
  if (open_batch() != nullptr) {
    return error(Code::invalid_argument, "rank %d: split inside a group; it needs an answer at once, so "
                 "call it before group_begin or after group_end", rank_);
  }
  ++splits_;
  std::unique_ptr<Communicator> part;
  if (color >= 0) {
    auto announced = announce(color);
    if (!announced) return announced.status();
    part = std::move(*announced);
  }
  // An all_gather of (color, key) as a sum in which everybody fills its own place.
  std::vector<int64_t> table(2 * static_cast<size_t>(world_size_));
  table[2 * static_cast<size_t>(rank_)] = color;
  table[2 * static_cast<size_t>(rank_) + 1] = key;
  engine::OpRequest exchange;
  exchange.in = exchange.out = table.data();
  exchange.count = table.size();
  exchange.dtype = Dtype::int64;
  exchange.is_split = true;
  NEZHA_RETURN_IF_ERROR(issue(exchange, {}, nullptr));
  if (part == nullptr) return part;
  std::vector<int> ranks;
  for (int other = 0; other < world_size_; ++other) {
    if (table[2 * static_cast<size_t>(other)] == color) ranks.push_back(other);
  }
  std::stable_sort(ranks.begin(), ranks.end(), [&](int a, int b) {
    return table[2 * static_cast<size_t>(a) + 1] < table[2 * static_cast<size_t>(b) + 1];
  });
  std::vector<int> members;
  for (const int other : ranks) {
    members.push_back(group_->members[static_cast<size_t>(other)].global_rank);
  }
  Loop::Lock lock(context_->loop());
  context_->groups().set_members(*part->group_, std::move(members));
  NEZHA_RETURN_IF_ERROR(part->adopt(*part->group_));
  return part;
}

// ---------------------------------------------------------------------------- learned table

std::string Communicator::table_json() {
  const Loop::Visit visit(context_->loop());
  return group_->policy->save();
}

std::string Communicator::stragglers_json() {
  const Loop::Visit visit(context_->loop());
  JsonWriter json;
  context_->engine().write_stragglers(*group_, json);
  return json.take();
}

Status Communicator::load_table(const std::string& json) {
  const Loop::Visit visit(context_->loop());
  if (!group_->policy->has_memory() && json != "{}") {
    const std::string policy(group_->policy->name());
    return error(Code::invalid_argument, "policy '%s' keeps no table, so none can be loaded; set "
                 "policy=table", policy.c_str());
  }
  return group_->policy->load(json);
}

// Every rank decides for its own sends, so every rank has a file of its own. What cannot be used is not
// replaced either: it may be another policy's, or another version's.
void Communicator::load_table_file() {
  const std::string& setting = context_->config().table_file;
  if (setting.empty() || !group_->policy->has_memory()) return;
  table_file_ = expand_path(setting, rank_);
  if (!differs_by_rank(setting)) table_file_ += "." + std::to_string(rank_);
  constexpr size_t kBytesMax = 64 << 20;
  const auto json = read_input_file(table_file_, kBytesMax);
  if (!json && json.status().os_errno == ENOENT) return;  // the first run has none
  if (Status loaded = json ? load_table(json.value()) : json.status(); !loaded) {
    NEZHA_LOG(warn, "balancer", "rank %d: table_file %s was not used, and stays as it is: %s; remove "
              "it to begin anew", rank_, table_file_.c_str(), loaded.to_string().c_str());
    table_file_.clear();
  }
}

// On the thread for files: a disk that does not answer keeps nobody from leaving.
void Communicator::save_table_file() {
  if (table_file_.empty()) return;
  try {
    const bool taken = post_file_work([path = table_file_, text = table_json(), rank = rank_] {
      if (Status written = write_file(path, text, /*to_disk=*/true); !written) {
        NEZHA_LOG(warn, "balancer", "rank %d: table_file was not written: %s", rank,
                  written.message().c_str());
      }
    });
    if (taken && finish_file_work(kDiskPatience)) return;
    NEZHA_LOG(warn, "balancer", "rank %d: table_file %s is not written yet: its disk does not answer",
              rank_, table_file_.c_str());
  } catch (const std::bad_alloc&) {
    NEZHA_LOG(warn, "balancer", "rank %d: table_file was not written: out of memory", rank_);
  }
}

}  // namespace nezha::context
