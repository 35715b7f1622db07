#include "buffer.h"

#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "element_names.h"
#include "errors.h"
#include "torch_tensor.h"

namespace nb = nanobind;

namespace nezha::python {
namespace {

constexpr const char* kDtypes =
    "float64, float32, float16, bfloat16, float8_e4m3fn, float8_e5m2, int8 to int64, uint8 to uint64, "
    "bool, complex64 and complex128";
constexpr const char* kNotOnHost = " is not in the memory of the host: copy it to the CPU first";

[[noreturn]] void refuse_dtype(const std::string& dtype, const char* argument) {
  raise(NEZHA_UNSUPPORTED, std::string(argument) + " has dtype " + dtype +
                               ", which cannot be combined: convert it to one of " + kDtypes);
}

[[noreturn]] void refuse_objects(const char* argument) {
  raise(NEZHA_UNSUPPORTED, std::string(argument) +
                               " holds references to Python objects, which mean nothing to another "
                               "rank: pass their bytes, for example pickle.dumps(...)");
}

[[noreturn]] void refuse_read_only(const char* argument) {
  raise(NEZHA_INVALID_ARGUMENT,
        std::string(argument) +
            " is read-only and the result is written into it: pass a writable array, or out=");
}

// `shape` and `strides` (in any unit) have `ndim` entries.
[[noreturn]] void refuse_strides(const int64_t* shape, const int64_t* strides, int ndim,
                                 const char* unit, const char* argument) {
  std::string dims, steps;
  for (int i = 0; i < ndim; ++i) {
    dims += (i ? ", " : "") + std::to_string(shape[i]);
    steps += (i ? ", " : "") + std::to_string(strides[i]);
  }
  raise(NEZHA_INVALID_ARGUMENT,
        std::string(argument) + " is not C-contiguous: shape (" + dims + "), strides (" + steps +
            ") " + unit + ". Pass a contiguous array: numpy.ascontiguousarray(" + argument +
            ") or " + argument + ".contiguous() make one, which receives the result");
}

// `step` is the unit of the strides that belongs to one element.
bool contiguous(const int64_t* shape, const int64_t* strides, int ndim, int64_t step) {
  int64_t expected = step;
  for (int i = 0; i < ndim; ++i) {
    if (shape[i] == 0) return true;
  }
  for (int i = ndim - 1; i >= 0; --i) {
    if (shape[i] != 1 && strides[i] != expected) return false;
    expected *= shape[i];
  }
  return true;
}

std::optional<nezha_dtype> signed_integer(Py_ssize_t size) {
  switch (size) {
    case 1: return NEZHA_INT8;
    case 2: return NEZHA_INT16;
    case 4: return NEZHA_INT32;
    case 8: return NEZHA_INT64;
    default: return std::nullopt;
  }
}

std::optional<nezha_dtype> unsigned_integer(Py_ssize_t size) {
  switch (size) {
    case 1: return NEZHA_UINT8;
    case 2: return NEZHA_UINT16;
    case 4: return NEZHA_UINT32;
    case 8: return NEZHA_UINT64;
    default: return std::nullopt;
  }
}

// Elements that the library has no dtype for are combined as `unit` elements of `dtype` each.
struct Combined {
  const char* name;
  nezha_dtype dtype;
  uint64_t unit;
};
constexpr std::array<Combined, 3> kCombined = {
    {{"bool", NEZHA_UINT8, 1}, {"complex64", NEZHA_FLOAT32, 2}, {"complex128", NEZHA_FLOAT64, 2}}};

// Dtypes of NumPy that come from ml_dtypes.
std::optional<nezha_dtype> dtype_of_extension(const std::string& name) {
  if (name == "bfloat16") return NEZHA_BFLOAT16;
  if (name == "float8_e4m3fn") return NEZHA_FLOAT8_E4M3FN;
  if (name == "float8_e5m2") return NEZHA_FLOAT8_E5M2;
  return std::nullopt;
}

// A struct-module format of one native element; null means unsigned bytes.
std::optional<nezha_dtype> dtype_of_format(const char* format, Py_ssize_t item_size) {
  if (format == nullptr) return NEZHA_UINT8;
  if (*format == '@' || *format == '=' || *format == '<') ++format;
  if (format[0] == '\0' || format[1] != '\0') return std::nullopt;
  switch (*format) {
    case 'b': case 'h': case 'i': case 'l': case 'q': return signed_integer(item_size);
    case 'B': case 'H': case 'I': case 'L': case 'Q': return unsigned_integer(item_size);
    case 'd': return NEZHA_FLOAT64;
    case 'f': return NEZHA_FLOAT32;
    case 'e': return NEZHA_FLOAT16;
    default: return std::nullopt;
  }
}

std::optional<nezha_dtype> dtype_of_dlpack(nb::dlpack::dtype dtype) {
  if (dtype.lanes != 1) return std::nullopt;
  using Kind = nb::dlpack::dtype_code;
  switch (static_cast<Kind>(dtype.code)) {
    case Kind::Int: return signed_integer(dtype.bits / 8);
    case Kind::UInt: return unsigned_integer(dtype.bits / 8);
    case Kind::Bfloat: return dtype.bits == 16 ? std::optional(NEZHA_BFLOAT16) : std::nullopt;
    case Kind::Float:
      if (dtype.bits == 64) return NEZHA_FLOAT64;
      if (dtype.bits == 32) return NEZHA_FLOAT32;
      return dtype.bits == 16 ? std::optional(NEZHA_FLOAT16) : std::nullopt;
    default: return std::nullopt;
  }
}

// What the object itself says when asked for DLPack; empty when it does not object.
std::string dlpack_complaint(nb::handle object) {
  try {
    object.attr("__dlpack__")();
    return "";
  } catch (nb::python_error& error) {
    return nb::str(error.value()).c_str();
  }
}

}  // namespace

void Buffer::acquire(nb::handle object, Access access, const char* argument, Elements elements) {
  // First what most calls pass; tensors of torch have no buffer protocol.
  if (try_buffer_protocol(object, access, argument, elements)) return;
  if (is_torch_tensor(object)) return take_tensor(object, argument, elements);
  if (try_array_interface(object, access, argument, elements) ||
      try_dlpack(object, access, argument, elements)) {
    return;
  }
  raise(NEZHA_INVALID_ARGUMENT,
        std::string(argument) + " is " + nb::str(object.type().attr("__name__")).c_str() +
            ", which has no memory to work on: pass a NumPy array, a torch CPU tensor, or "
            "anything with the buffer protocol or DLPack");
}

void Buffer::release() {
  if (view_.obj != nullptr) PyBuffer_Release(&view_);
  owner_.reset();
  array_.reset();
}

void Buffer::take_elements(std::string name, uint64_t bytes, Elements elements, const char* argument) {
  dtype_ = NEZHA_UINT8;
  unit_ = bytes;
  if (elements == Elements::numbers) {
    const auto* combined = std::find_if(kCombined.begin(), kCombined.end(),
                                        [&](const Combined& each) { return name == each.name; });
    if (combined == kCombined.end()) refuse_dtype(name, argument);
    dtype_ = combined->dtype;
    unit_ = combined->unit;
  }
  foreign_ = std::make_unique<std::string>(std::move(name));
}

bool Buffer::is_alike(const Buffer& other) const {
  if (dtype_ != other.dtype_ || unit_ != other.unit_) return false;
  if (foreign_ == nullptr || other.foreign_ == nullptr) return foreign_ == other.foreign_;
  return *foreign_ == *other.foreign_;
}

void Buffer::take_tensor(nb::handle tensor, const char* argument, Elements elements) {
  using State = TorchMemory::State;
  const TorchMemory memory = torch_memory(tensor);
  const std::string name = argument;
  const bool is_known = memory.element_bytes == 0;
  if (!is_known) take_elements(dtype_name(tensor), memory.element_bytes, elements, argument);
  switch (memory.state) {
    case State::usable: break;
    case State::quantized:
      raise(NEZHA_UNSUPPORTED, name + " is quantized, and its scale would stay behind: pass " + name +
                                   ".int_repr() and tell the scale");
    case State::not_on_host:
      raise(NEZHA_UNSUPPORTED, name + kNotOnHost);
    case State::needs_grad:
      raise(NEZHA_INVALID_ARGUMENT, name + " requires grad, of which nobody would know: pass " +
                                        name + ".detach()");
    case State::not_contiguous: {
      const nb::object shape = tensor.attr("shape");
      raise(NEZHA_INVALID_ARGUMENT, name + " is not C-contiguous: shape " + nb::str(shape).c_str() +
                                        ". Pass " + name + ".contiguous(), which receives the result");
    }
  }
  data_ = memory.data;
  count_ = memory.count;
  if (is_known) dtype_ = memory.dtype;
  owner_ = nb::borrow(tensor);
}

bool Buffer::try_buffer_protocol(nb::handle object, Access access, const char* argument,
                                 Elements elements) {
  if (!PyObject_CheckBuffer(object.ptr())) return false;
  if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_RECORDS_RO) != 0) {
    PyErr_Clear();  // NumPy refuses dtypes it has no format for; the other ways may know them
    return false;
  }
  const auto dtype = dtype_of_format(view_.format, view_.itemsize);
  const Py_ssize_t item = view_.itemsize;
  if (!dtype) {
    const std::string name = element_name(object, view_.format, item);
    if (item == 0) refuse_dtype(name, argument);
    take_elements(name, static_cast<uint64_t>(item), elements, argument);
    if (holds_objects(object, view_.format)) refuse_objects(argument);
  }
  if (access == Access::write && view_.readonly) refuse_read_only(argument);
  static_assert(sizeof(Py_ssize_t) == sizeof(int64_t));
  const auto* shape = reinterpret_cast<const int64_t*>(view_.shape);
  const auto* strides = reinterpret_cast<const int64_t*>(view_.strides);
  if (strides != nullptr && !contiguous(shape, strides, view_.ndim, item)) {
    refuse_strides(shape, strides, view_.ndim, "bytes", argument);
  }
  data_ = view_.buf;
  count_ = static_cast<uint64_t>(view_.len / item);
  if (dtype) dtype_ = *dtype;
  return true;
}

bool Buffer::try_array_interface(nb::handle object, Access access, const char* argument,
                                 Elements elements) {
  nb::object interface = nb::getattr(object, "__array_interface__", nb::none());
  if (interface.is_none()) return false;
  const std::string dtype = dtype_name(object);
  if (const auto known = dtype_of_extension(dtype)) {
    dtype_ = *known;
  } else {
    const uint64_t bytes = dtype_bytes(object);
    if (bytes == 0) refuse_dtype(dtype, argument);
    take_elements(dtype, bytes, elements, argument);
    if (holds_objects(object, "")) refuse_objects(argument);
  }
  nb::tuple memory = nb::cast<nb::tuple>(interface["data"]);
  nb::tuple shape = nb::cast<nb::tuple>(interface["shape"]);
  if (access == Access::write && nb::cast<bool>(memory[1])) refuse_read_only(argument);
  if (nb::object strides = interface["strides"]; !strides.is_none()) {  // None: C-contiguous
    const auto dims = nb::cast<std::vector<int64_t>>(shape);
    const auto steps = nb::cast<std::vector<int64_t>>(strides);
    refuse_strides(dims.data(), steps.data(), static_cast<int>(dims.size()), "bytes", argument);
  }
  count_ = 1;
  for (nb::handle extent : shape) count_ *= nb::cast<uint64_t>(extent);
  data_ = reinterpret_cast<void*>(nb::cast<uintptr_t>(memory[0]));
  owner_ = nb::borrow(object);
  return true;
}

bool Buffer::try_dlpack(nb::handle object, Access access, const char* argument,
                        Elements elements) {
  if (!nb::hasattr(object, "__dlpack__")) return false;
  if (!nb::try_cast(object, array_.emplace(), false)) {
    raise(NEZHA_INVALID_ARGUMENT,
          std::string(argument) + " could not be reached through DLPack: " +
              dlpack_complaint(object));
  }
  if (array_->device_type() != nb::device::cpu::value) {
    raise(NEZHA_UNSUPPORTED, std::string(argument) + kNotOnHost);
  }
  const auto dtype = dtype_of_dlpack(array_->dtype());
  if (!dtype) {
    const std::string name = element_name(array_->dtype());
    const bool is_whole = array_->dtype().lanes == 1 && array_->dtype().bits % 8 == 0;
    if (!is_whole) refuse_dtype(name, argument);
    take_elements(name, array_->dtype().bits / 8, elements, argument);
  }
  nb::ndarray<> writable;
  if (access == Access::write && !nb::try_cast(object, writable, false)) {
    refuse_read_only(argument);
  }
  const int ndim = static_cast<int>(array_->ndim());
  if (!contiguous(array_->shape_ptr(), array_->stride_ptr(), ndim, 1)) {
    refuse_strides(array_->shape_ptr(), array_->stride_ptr(), ndim, "elements", argument);
  }
  data_ = const_cast<void*>(array_->data());
  count_ = array_->size();
  if (dtype) dtype_ = *dtype;
  return true;
}

}  // namespace nezha::python
