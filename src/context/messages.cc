// Communicator: messages between two ranks.
#include "context/argument_checks.h"
#include "context/communicator.h"

namespace nezha::context {

Status Communicator::send(const void* buffer, uint64_t count, Dtype dtype, int destination,
                          uint32_t tag, const CallOptions& options, engine::Work* work) {
  NEZHA_RETURN_IF_ERROR(check_dtype("send", dtype));
  NEZHA_RETURN_IF_ERROR(check_rank("send", "destination", destination, world_size_));
  NEZHA_RETURN_IF_ERROR(check_memory("send", {"buffer", buffer, count}, dtype));
  engine::MessageRequest request;
  request.is_send = true;
  request.buffer = const_cast<void*>(buffer);  // a send only reads it
  request.count = count;
  request.dtype = dtype;
  request.peer = destination;
  request.tag = tag;
  return issue(request, options, work);
}

Status Communicator::receive(void* buffer, uint64_t count, Dtype dtype, int source, uint32_t tag,
                             const CallOptions& options, engine::Work* work) {
  NEZHA_RETURN_IF_ERROR(check_dtype("recv", dtype));
  if (source != -1) {
    NEZHA_RETURN_IF_ERROR(check_rank("recv", "source", source, world_size_));
  }
  NEZHA_RETURN_IF_ERROR(check_memory("recv", {"buffer", buffer, count}, dtype));
  engine::MessageRequest request;
  request.is_send = false;
  request.buffer = buffer;
  request.count = count;
  request.dtype = dtype;
  request.peer = source;
  request.tag = tag;
  return issue(request, options, work);
}

Result<std::optional<engine::WaitingMessage>> Communicator::probe(int source, uint32_t tag) {
  if (source != engine::kAnySource) {
    NEZHA_RETURN_IF_ERROR(check_rank("probe", "source", source, world_size_));
  }
  engine::MessageRequest request;
  request.is_send = false;
  request.peer = source;
  request.tag = tag;
  progress::Loop::Lock lock(context_->loop());
  lock.drive_once();
  return context_->groups().probe(*group_, request);
}

}  // namespace nezha::context
