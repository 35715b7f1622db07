// Resp: the language of Redis servers (RESP2), as much of it as a store needs.
//
// Contract: pure, any thread. Whatever a server sends is a reply, a wish for more bytes, or refused;
// nothing is believed about sizes beyond kReplyBytesMax. Arrays are refused: no command of ours is
// answered with one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "rendezvous/store.h"

namespace nezha::rendezvous {

inline constexpr size_t kReplyLineMax = 4096;
inline constexpr size_t kReplyBytesMax = kValueBytesMax + kReplyLineMax;

WipedText encode_command(std::initializer_list<std::string_view> words);

struct RespReply {
  enum class Kind : uint8_t { line, error, number, value, nothing };
  Kind kind = Kind::nothing;
  WipedText text;  // without the leading mark; the bytes of a value
};

enum class RespOutcome : uint8_t { more, reply, refused };
// Looks at all bytes that have arrived since the command was sent. `refused` too when more follow the
// reply, because one command has one reply.
RespOutcome parse_reply(std::string_view bytes, RespReply* reply);

}  // namespace nezha::rendezvous
