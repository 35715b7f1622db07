// Status: the outcome of an operation that can fail for reasons outside the program.
//
// Contract: a value, any thread. The code says what the caller can do; the message names rank,
// peer, rail, address, operation and size, and what to do. Errors are rare, so the message may
// allocate; success never does. A lost rail is an event, not a Status; losing the last rail to a
// peer is `peer_lost`.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace nezha {

// The values are part of the C API (nezha.h) and are never renumbered.
enum class Code : uint8_t {
  ok = 0,
  invalid_argument = 1,  // fix the call
  unsupported = 2,       // choose another dtype, op, algorithm or store
  timed_out = 3,         // retry, or raise the deadline
  exhausted = 4,         // descriptors, memory or threads ran out: back off
  peer_lost = 5,         // shrink or restart the group
  mismatch = 6,          // the ranks' programs disagree: fix the program
  aborted = 7,           // somebody asked
  internal = 8,          // report it
};

std::string_view name_of(Code code);

// Details of an error for programs; its message is for people. Unknown fields are empty or -1.
struct ErrorDetails {
  std::vector<int> ranks = {};      // of the communicator: lost, waited for, or at odds with each other
  std::string rail = {};            // the last one to a rank that was lost
  std::string_view operation = {};  // "all_reduce"; always a literal
  int64_t number = -1;              // of the operation, among those of its communicator
  int64_t bytes = -1;               // of the operation
  int64_t communicator = -1;
  bool goes_on = false;             // the operation goes on: only a wait for it is over
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}

  static Status ok() { return {}; }

  bool is_ok() const { return code_ == Code::ok; }
  explicit operator bool() const { return is_ok(); }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }

  // Context, filled where known; -1 / 0 when not.
  int rail = -1;
  int peer = -1;
  int os_errno = 0;
  std::shared_ptr<const ErrorDetails> details;  // null: none are known

  Status& with_peer(int rank) { peer = rank; return *this; }
  Status& with_rail(int index) { rail = index; return *this; }
  Status& with_errno(int number) { os_errno = number; return *this; }
  Status& with(ErrorDetails known) {
    details = std::make_shared<const ErrorDetails>(std::move(known));
    return *this;
  }

  // "peer_lost: rank 0: lost rank 2 ..."
  std::string to_string() const;

 private:
  Code code_ = Code::ok;
  std::string message_;
};

// printf-style construction: Status s = error(Code::timed_out, "rank %d: ...", rank);
[[gnu::format(printf, 2, 3)]] Status error(Code code, const char* format, ...);
// Like error(), where memory may have run out: if there is none for `format`, it says "out of
// memory".
[[gnu::format(printf, 2, 3)]] Status nothrow_error(Code code, const char* format, ...) noexcept;

// A value or the Status that explains its absence. The shape of std::expected, which C++20 lacks.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}          // NOLINT: implicit on purpose
  Result(Status status) : state_(std::move(status)) {}   // NOLINT

  bool is_ok() const { return std::holds_alternative<T>(state_); }
  explicit operator bool() const { return is_ok(); }
  T& value() { return std::get<T>(state_); }
  const T& value() const { return std::get<T>(state_); }
  T* operator->() { return &value(); }
  T& operator*() { return value(); }
  Status status() const { return is_ok() ? Status::ok() : std::get<Status>(state_); }

 private:
  std::variant<T, Status> state_;
};

}  // namespace nezha

// Returns the Status of `expression` from the enclosing function when it is an error.
#define NEZHA_RETURN_IF_ERROR(expression)                          \
  do {                                                             \
    if (::nezha::Status status_ = (expression); !status_.is_ok()) { \
      return status_;                                              \
    }                                                              \
  } while (false)
