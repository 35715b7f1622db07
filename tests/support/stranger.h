// Stranger: one connection of somebody who does not belong to a job, and the words he may know.
//
// Contract: the test's thread. Speaking never fails (whoever is refused in the middle of his words is
// refused); hearing waits as long as a test may, and then fails the test.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "support/watchdog.h"
#include "wire/handshake.h"

namespace nezha::testing {

inline constexpr size_t kMessageBytes = 64;
using Message = std::array<std::byte, kMessageBytes>;
inline constexpr int kStrangerPatienceMs = static_cast<int>(kPatience_s * 1000 / 2);

// 127.1.0.1, the first rail of RailJob.
sockaddr_in first_rail(uint16_t port);

class Stranger {
 public:
  explicit Stranger(uint16_t port);
  // Takes an accepted connection.
  static Stranger accepted(int fd) { return Stranger(Taken{fd}); }
  Stranger(Stranger&& other) noexcept;
  ~Stranger();

  void say(const void* bytes, size_t size);
  void say(const Message& message) { say(message.data(), message.size()); }
  void say(const std::string& text) { say(text.data(), text.size()); }
  void stop_talking();

  // Waits until `size` bytes in all were heard; false when the other side closed before.
  bool hear(size_t size);
  // Everything up to the end of the connection.
  const std::string& hear_all();
  // The index-th message heard; zeros when it did not come.
  Message message(size_t index) const { return bytes_at(index * kMessageBytes); }
  // The same for the 64 bytes from `offset` on.
  Message bytes_at(size_t offset) const;

 private:
  struct Taken {
    int fd;
  };
  explicit Stranger(Taken taken) : fd_(taken.fd) {}

  int fd_;
  std::string heard_;
};

Message encoded(const wire::Hello& hello);
wire::Nonce nonce_of(uint8_t start);
std::string text_of(const Message& message);
Message with_bytes(Message message, size_t offset, std::initializer_list<uint8_t> bytes);
// A sound data frame without payload.
Message data_frame();

}  // namespace nezha::testing
