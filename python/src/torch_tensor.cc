#include "torch_tensor.h"

#include <array>
#include <utility>

namespace nb = nanobind;

namespace nezha::python {
namespace {

using DtypeName = std::pair<const char*, nezha_dtype>;
constexpr std::array<DtypeName, 14> kNames = {{{"float32", NEZHA_FLOAT32},
                                              {"bfloat16", NEZHA_BFLOAT16},
                                              {"float16", NEZHA_FLOAT16},
                                              {"float64", NEZHA_FLOAT64},
                                              {"int64", NEZHA_INT64},
                                              {"int32", NEZHA_INT32},
                                              {"int8", NEZHA_INT8},
                                              {"uint8", NEZHA_UINT8},
                                               {"int16", NEZHA_INT16},
                                               {"uint16", NEZHA_UINT16},
                                               {"uint32", NEZHA_UINT32},
                                               {"uint64", NEZHA_UINT64},
                                               {"float8_e4m3fn", NEZHA_FLOAT8_E4M3FN},
                                               {"float8_e5m2", NEZHA_FLOAT8_E5M2}}};

// What a tensor is asked, as Python strings that are made once.
enum Question {
  kDtype, kIsCpu, kRequiresGrad, kLayout, kIsContiguous, kIsNeg, kNumel, kDataPtr,
  // Of a dtype that the library does not have:
  kIsQuantized, kIsConj, kElementSize, kQuestions
};
constexpr std::array<const char*, kQuestions> kQuestionNames = {
    "dtype", "is_cpu", "requires_grad", "layout", "is_contiguous", "is_neg", "numel", "data_ptr",
    "is_quantized", "is_conj", "element_size"};

// Objects of torch, which lives as long as the interpreter does, and the questions.
struct Torch {
  PyObject* tensor = nullptr;
  PyObject* strided = nullptr;
  std::array<PyObject*, kNames.size()> dtypes{};
  std::array<PyObject*, kQuestions> questions{};
};

// Null while torch is not loaded, or only half.
const Torch* loaded_torch() {
  static Torch torch;
  static bool is_ready = false;
  if (is_ready) return &torch;
  // Asked by every call of a program without torch: the name is made, and its hash taken, once.
  static PyObject* const torch_name = PyUnicode_InternFromString("torch");
  PyObject* module = PyDict_GetItem(PyImport_GetModuleDict(), torch_name);
  if (module == nullptr) return nullptr;
  auto attribute = [module](const char* name) {
    return nb::getattr(nb::handle(module), name, nb::none()).release().ptr();
  };
  Torch found;
  found.tensor = attribute("Tensor");
  found.strided = attribute("strided");
  for (size_t i = 0; i < kNames.size(); ++i) found.dtypes[i] = attribute(kNames[i].first);
  for (size_t i = 0; i < kQuestions; ++i) {
    found.questions[i] = PyUnicode_InternFromString(kQuestionNames[i]);
  }
  if (!PyType_Check(found.tensor) || found.strided == Py_None) return nullptr;
  torch = found;
  is_ready = true;
  return &torch;
}

nb::object checked(PyObject* answer) {
  if (answer == nullptr) throw nb::python_error();
  return nb::steal(answer);
}

// An attribute of the tensor.
nb::object look(const Torch& torch, nb::handle tensor, Question question) {
  return checked(PyObject_GetAttr(tensor.ptr(), torch.questions[question]));
}

// What a method without arguments answers.
nb::object ask(const Torch& torch, nb::handle tensor, Question question) {
  PyObject* self = tensor.ptr();
  return checked(PyObject_VectorcallMethod(torch.questions[question], &self, 1, nullptr));
}

bool is_true(const nb::object& value) { return value.ptr() == Py_True; }

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
  const nb::object dtype = look(torch, tensor, kDtype);
  size_t index = 0;
  while (index < kNames.size() && torch.dtypes[index] != dtype.ptr()) ++index;
  const bool is_foreign = index == kNames.size();
  if (is_foreign) memory.element_bytes = nb::cast<uint64_t>(ask(torch, tensor, kElementSize));
  if (is_foreign && is_true(look(torch, tensor, kIsQuantized))) {
    memory.state = State::quantized;
  } else if (!is_true(look(torch, tensor, kIsCpu))) {
    memory.state = State::not_on_host;
  } else if (is_true(look(torch, tensor, kRequiresGrad))) {
    memory.state = State::needs_grad;
  } else if (look(torch, tensor, kLayout).ptr() != torch.strided ||
             !is_true(ask(torch, tensor, kIsContiguous)) || is_true(ask(torch, tensor, kIsNeg)) ||
             (is_foreign && is_true(ask(torch, tensor, kIsConj)))) {
    memory.state = State::not_contiguous;
  } else {
    if (!is_foreign) memory.dtype = kNames[index].second;
    memory.count = nb::cast<uint64_t>(ask(torch, tensor, kNumel));
    memory.data = reinterpret_cast<void*>(nb::cast<uintptr_t>(ask(torch, tensor, kDataPtr)));
  }
  return memory;
}

}  // namespace nezha::python
