#include "capi/handles.h"

namespace nezha::capi {

Status check(nezha_comm_t comm) {
  if (comm == nullptr) return error(Code::invalid_argument, "the communicator is NULL");
  if (!is_from_before_fork(comm)) return Status::ok();
  return error(Code::invalid_argument, "the communicator was made before fork(): a child process "
               "cannot use it; call nezha_init in the child, or use spawn");
}

Status check(nezha_work_t work) {
  if (work == nullptr) return error(Code::invalid_argument, "the work handle is NULL");
  if (!is_from_before_fork(work)) return Status::ok();
  return error(Code::invalid_argument, "the work handle was made before fork()");
}

Status read_options(const nezha_op_options* given, context::CallOptions* out) {
  nezha_op_options options{sizeof(nezha_op_options), 1.0, 0, nullptr, 0};
  NEZHA_RETURN_IF_ERROR(read_sized(given, &options));
  out->factor = options.factor;
  out->timeout_s = options.timeout_s;
  out->will_wait = options.will_wait != 0;
  if (options.algorithm == nullptr || options.algorithm[0] == '\0') return Status::ok();
  auto algorithm = parse_algorithm(options.algorithm);
  if (!algorithm) return algorithm.status();
  out->algorithm = *algorithm;
  return Status::ok();
}

}  // namespace nezha::capi
