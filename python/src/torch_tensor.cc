#include "torch_tensor.h"

#include <array>
#include <utility>

namespace nb = nanobind;

namespace nezha::python {
namespace {

using DtypeName = std::pair<const char*, nezha_dtype>;
constexpr std::array<DtypeName, 8> kNames = {{{"float32", NEZHA_FLOAT32},
                                              {"bfloat16", NEZHA_BFLOAT16},
                                              {"float16", NEZHA_FLOAT16},
                                              {"float64", NEZHA_FLOAT64},
                                              {"int64", NEZHA_INT64},
                                              {"int32", NEZHA_INT32},
                                              {"int8", NEZHA_INT8},
                                              {"uint8", NEZHA_UINT8}}};

// Objects of torch, which lives as long as the interpreter does.
struct Torch {
  PyObject* tensor = nullptr;
  PyObject* strided = nullptr;
  std::array<PyObject*, kNames.size()> dtypes{};
};

// Null while torch is not loaded, or only half.
const Torch* loaded_torch() {
  static Torch torch;
  static bool is_ready = false;
  if (is_ready) return &torch;
  PyObject* module = PyDict_GetItemString(PyImport_GetModuleDict(), "torch");
  if (module == nullptr) return nullptr;
  auto attribute = [module](const char* name) {
    return nb::getattr(nb::handle(module), name, nb::none()).release().ptr();
  };
  Torch found;
  found.tensor = attribute("Tensor");
  found.strided = attribute("strided");
  for (size_t i = 0; i < kNames.size(); ++i) found.dtypes[i] = attribute(kNames[i].first);
  if (!PyType_Check(found.tensor) || found.strided == Py_None) return nullptr;
  torch = found;
  is_ready = true;
  return &torch;
}

bool is_true(nb::handle value) { return value.ptr() == Py_True; }

}  // namespace

bool is_torch_tensor(nb::handle object) {
  const Torch* torch = loaded_torch();
  return torch != nullptr &&
         PyObject_TypeCheck(object.ptr(), reinterpret_cast<PyTypeObject*>(torch->tensor)) != 0;
}

TorchMemory torch_memory(nb::handle tensor) {
  using State = TorchMemory::State;
  const Torch& torch = *loaded_torch();
  TorchMemory memory;
  const nb::object dtype = tensor.attr("dtype");
  size_t index = 0;
  while (index < kNames.size() && torch.dtypes[index] != dtype.ptr()) ++index;
  if (index == kNames.size()) {
    memory.state = State::unknown_dtype;
  } else if (!is_true(tensor.attr("is_cpu"))) {
    memory.state = State::not_on_host;
  } else if (is_true(tensor.attr("requires_grad"))) {
    memory.state = State::needs_grad;
  } else if (tensor.attr("layout").ptr() != torch.strided ||
             !is_true(tensor.attr("is_contiguous")()) || is_true(tensor.attr("is_neg")())) {
    memory.state = State::not_contiguous;
  } else {
    memory.dtype = kNames[index].second;
    memory.count = nb::cast<uint64_t>(tensor.attr("numel")());
    memory.data = reinterpret_cast<void*>(nb::cast<uintptr_t>(tensor.attr("data_ptr")()));
  }
  return memory;
}

}  // namespace nezha::python
