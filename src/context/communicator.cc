#include "context/communicator.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <numeric>

#include "base/log.h"
#include "schedule/catalog.h"

namespace nezha::context {

using progress::Loop;

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
    Loop::Baton baton(context->loop());
    auto created = context->engine().create_group(std::move(request));
    if (!created) return created.status();
    group = *created;
  }
  NEZHA_RETURN_IF_ERROR(context->start());
  std::unique_ptr<Communicator> world(new Communicator(std::move(context), group));
  world->rank_ = world->context_->rank();
  world->world_size_ = world->context_->world_size();
  world->is_world_ = true;
  world->load_table_file();
  return world;
}

Communicator::~Communicator() {
  if (is_world_) save_table_file();
  Loop::Baton baton(context_->loop());
  context_->engine().destroy_group(*group_);
}

// ------------------------------------------------------------------------------ operations

Status Communicator::check(const void* buffer, uint64_t count, Dtype dtype,
                           Collective collective) const {
  const std::string name(name_of(collective));
  if (dtype_size(dtype) == 0) {
    return error(Code::invalid_argument, "%s: dtype %d does not exist", name.c_str(),
                 static_cast<int>(dtype));
  }
  if (buffer == nullptr && count > 0) {
    return error(Code::invalid_argument, "%s: the buffer is null but count is %llu", name.c_str(),
                 static_cast<unsigned long long>(count));
  }
  if (count > UINT64_MAX / 16) {
    return error(Code::invalid_argument, "%s: count %llu is not possible", name.c_str(),
                 static_cast<unsigned long long>(count));
  }
  return Status::ok();
}

Status Communicator::all_reduce(const void* in, void* out, uint64_t count, Dtype dtype,
                                ReduceOp op, const CallOptions& options, engine::Work* work) {
  NEZHA_RETURN_IF_ERROR(check(in, count, dtype, Collective::all_reduce));
  NEZHA_RETURN_IF_ERROR(check(out, count, dtype, Collective::all_reduce));
  if (static_cast<size_t>(op) >= kReduceOpCount) {
    return error(Code::invalid_argument, "all_reduce: op %d does not exist", static_cast<int>(op));
  }
  if (!reduce_supported(dtype, op)) {
    return error(Code::unsupported, "all_reduce: %s is not defined for %s; use an integer dtype",
                 std::string(name_of(op)).c_str(), std::string(name_of(dtype)).c_str());
  }
  const auto* first = static_cast<const char*>(in);
  const auto* second = static_cast<const char*>(out);
  const uint64_t bytes = count * dtype_size(dtype);
  if (first != second && first < second + bytes && second < first + bytes) {
    return error(Code::invalid_argument, "all_reduce: input and output overlap without being the "
                 "same buffer; pass the same pointer twice, or separate buffers");
  }
  engine::OpRequest request;
  request.collective = Collective::all_reduce;
  request.in = in;
  request.out = out;
  request.count = count;
  request.dtype = dtype;
  request.op = op;
  request.factor = options.factor;
  return issue(request, options, work);
}

Status Communicator::broadcast(void* buffer, uint64_t count, Dtype dtype, int root,
                               const CallOptions& options, engine::Work* work) {
  NEZHA_RETURN_IF_ERROR(check(buffer, count, dtype, Collective::broadcast));
  if (root < 0 || root >= world_size_) {
    return error(Code::invalid_argument, "broadcast: root %d is not in 0..%d", root,
                 world_size_ - 1);
  }
  engine::OpRequest request;
  request.collective = Collective::broadcast;
  request.in = buffer;
  request.out = buffer;
  request.count = count;
  request.dtype = dtype;
  request.root = root;
  return issue(request, options, work);
}

Status Communicator::barrier(const CallOptions& options, engine::Work* work) {
  engine::OpRequest request;
  request.collective = Collective::barrier;
  return issue(request, options, work);
}

Status Communicator::issue(engine::OpRequest request, const CallOptions& options,
                           engine::Work* work) {
  Loop& loop = context_->loop();
  const double timeout_s = options.timeout_s > 0 ? options.timeout_s : context_->timeout_s();
  request.deadline = deadline_after(loop.clock(), timeout_s);
  request.algorithm = options.algorithm;
  if (request.algorithm == Algorithm::automatic) {
    // The configured algorithm holds for the collectives that it fits.
    const auto configured = algorithm_from_name(context_->config().algorithm);
    if (configured && schedule::find_algorithm(request.collective, *configured) != nullptr) {
      request.algorithm = *configured;
    }
  }
  engine::Work own;
  engine::Work& target = work != nullptr ? *work : own;
  bool work_left = false;
  {
    Loop::Baton baton(loop);
    NEZHA_RETURN_IF_ERROR(context_->engine().submit(*group_, request, target));
    work_left = context_->engine().has_work();
  }
  if (work == nullptr) {
    wait(own, kNever);
    return own.status();
  }
  // What still has to move while the caller computes is the background thread's.
  if (work_left && !options.will_wait) loop.kick();
  return Status::ok();
}

bool Communicator::wait(const engine::Work& work, Nanoseconds deadline) {
  if (work.is_done()) return true;
  context_->loop().drive_until([&] { return work.is_done(); }, deadline);
  bool work_left = false;
  {
    Loop::Baton baton(context_->loop());
    work_left = context_->engine().has_work();
  }
  if (work_left) context_->loop().kick();
  return work.is_done();
}

bool Communicator::test(const engine::Work& work) {
  if (work.is_done()) return true;
  Loop::Baton baton(context_->loop());
  baton.drive_once();
  return work.is_done();
}

void Communicator::abort() {
  Loop::Baton baton(context_->loop());
  context_->engine().fail_group(
      *group_, error(Code::aborted, "rank %d aborted communicator %u", rank_, group_->comm), true);
  context_->engine().run(context_->loop().clock().now());
}

// ----------------------------------------------------------------------------------- split

// The group exists here, without members, before any rank can finish the exchange below, so the
// first frame of a quicker rank finds it.
Result<std::unique_ptr<Communicator>> Communicator::announce(int color) {
  auto policy = context_->make_policy();
  if (!policy) return policy.status();
  engine::GroupRequest request;
  uint64_t hash = 1469598103934665603u;  // FNV-1a over (parent, number of the split, color)
  for (const uint64_t part : {uint64_t{group_->comm}, uint64_t{splits_}, uint64_t(color) + 1}) {
    hash = (hash ^ part) * 1099511628211u;
    hash ^= hash >> 29;
  }
  request.comm = static_cast<uint32_t>(hash >> 16) | 1u;  // 0 is the world
  request.policy = std::move(*policy);
  request.costs = context_->costs();
  Loop::Baton baton(context_->loop());
  auto group = context_->engine().create_group(std::move(request));
  if (!group) return group.status();
  return std::unique_ptr<Communicator>(new Communicator(context_, *group));
}

Result<std::unique_ptr<Communicator>> Communicator::split(int color, int key) {
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
  NEZHA_RETURN_IF_ERROR(all_reduce(table.data(), table.data(), table.size(), Dtype::int64,
                                   ReduceOp::sum, {}, nullptr));
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
  Loop::Baton baton(context_->loop());
  context_->engine().set_members(*part->group_, std::move(members));
  part->rank_ = part->group_->rank;
  part->world_size_ = part->group_->world_size();
  return part;
}

// ---------------------------------------------------------------------------- learned table

std::string Communicator::table_json() {
  Loop::Baton baton(context_->loop());
  return group_->policy->save();
}

Status Communicator::load_table(const std::string& json) {
  Loop::Baton baton(context_->loop());
  return group_->policy->load(json);
}

void Communicator::load_table_file() {
  const std::string& path = context_->config().table_file;
  if (path.empty()) return;
  std::ifstream file(path);
  if (!file) return;  // the first run has none
  const std::string json((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (Status loaded = load_table(json); !loaded) {
    NEZHA_LOG(warn, "balancer", "table_file %s was not used: %s", path.c_str(),
              loaded.to_string().c_str());
  }
}

// Rank 0 speaks for the group; a reader never sees half a file.
void Communicator::save_table_file() {
  const std::string& path = context_->config().table_file;
  if (path.empty() || rank_ != 0) return;
  const std::string fresh = path + ".new";
  std::ofstream file(fresh, std::ios::trunc);
  file << table_json();
  file.close();
  if (!file || std::rename(fresh.c_str(), path.c_str()) != 0) {
    NEZHA_LOG(warn, "balancer", "cannot write table_file %s", path.c_str());
  }
}

}  // namespace nezha::context
