// What a torch tensor says of its memory, asked directly: DLPack costs a hundred times as much.
//
// Contract: called with the GIL held. torch is never imported: who passes a tensor has done so.
#pragma once

#include <nanobind/nanobind.h>

#include "nezha/nezha.h"

namespace nezha::python {

bool is_torch_tensor(nanobind::handle object);

struct TorchMemory {
  enum class State { usable, not_on_host, quantized, needs_grad, not_contiguous };
  State state = State::usable;
  void* data = nullptr;
  uint64_t count = 0;
  nezha_dtype dtype = NEZHA_UINT8;
  uint64_t element_bytes = 0;  // where the library has no dtype for it
};

TorchMemory torch_memory(nanobind::handle tensor);

}  // namespace nezha::python
