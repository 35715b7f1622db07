// Buffer: the memory of one Python array, held in place while an operation uses it.
//
// Contract: acquired and released with the GIL held; between the two, `data` stays valid and the
// array's owner cannot resize it, so other threads may read and write through it without the GIL.
// Accepts the buffer protocol (NumPy, bytearray, memoryview, array.array), NumPy arrays that have
// none (bfloat16 and float8 of ml_dtypes), torch tensors and DLPack, both on the CPU. Everything else is
// `invalid_argument` or `unsupported`, naming the argument and what to pass instead. An operation that
// only moves elements takes those that the library has no dtype for as bytes; one that combines takes
// bools as bytes that are 0 or 1, and a complex number as two of floating point.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "nezha/nezha.h"

namespace nezha::python {

enum class Access { read, write };
// Which elements: those that the library can combine, or any without references to Python objects.
enum class Elements { numbers, any };

class Buffer {
 public:
  Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { release(); }

  // `argument` names the parameter in messages: "x" or "out". Throws on an unusable object.
  void acquire(nanobind::handle object, Access access, const char* argument, Elements elements);
  void release();

  void* data() const { return data_; }
  uint64_t count() const { return count_; }  // elements
  // What the library is told: `amount` of `dtype`, which is `unit` for each element.
  uint64_t amount() const { return count_ * unit_; }
  nezha_dtype dtype() const { return dtype_; }
  uint64_t unit() const { return unit_; }
  // The elements' name where the library has no dtype for them, or null.
  const std::string* foreign() const { return foreign_.get(); }
  // Whether the other's elements are of the same dtype.
  bool is_alike(const Buffer& other) const;

 private:
  // Elements that the library has no dtype for.
  void take_elements(std::string name, uint64_t bytes, Elements elements, const char* argument);
  void take_tensor(nanobind::handle tensor, const char* argument, Elements elements);
  bool try_buffer_protocol(nanobind::handle object, Access access, const char* argument,
                           Elements elements);
  bool try_array_interface(nanobind::handle object, Access access, const char* argument,
                           Elements elements);
  bool try_dlpack(nanobind::handle object, Access access, const char* argument, Elements elements);

  void* data_ = nullptr;
  uint64_t count_ = 0;
  nezha_dtype dtype_ = NEZHA_UINT8;
  uint64_t unit_ = 1;
  std::unique_ptr<std::string> foreign_;
  Py_buffer view_{};                                  // view_.obj is null when not in use
  nanobind::object owner_;                            // array interface, torch: keeps the array
  std::optional<nanobind::ndarray<nanobind::ro>> array_;  // DLPack
};

}  // namespace nezha::python
