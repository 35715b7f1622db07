#include "redis/resp.h"

#include <charconv>
#include <optional>

namespace nezha::rendezvous {
namespace {

constexpr std::string_view kLineEnd = "\r\n";

// The size of a value; -1 stands for none.
std::optional<long> value_size(std::string_view text) {
  long size = 0;
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, size);
  if (read.ec != std::errc() || read.ptr != end) return std::nullopt;
  if (size < -1 || size > static_cast<long>(kValueBytesMax)) return std::nullopt;
  return size;
}

RespOutcome parse_value(std::string_view head, std::string_view rest, RespReply* reply) {
  const auto size = value_size(head);
  if (!size) return RespOutcome::refused;
  if (*size < 0) {
    *reply = {RespReply::Kind::nothing, ""};
    return rest.empty() ? RespOutcome::reply : RespOutcome::refused;
  }
  const size_t bytes = static_cast<size_t>(*size);
  const size_t whole = bytes + kLineEnd.size();
  if (rest.size() > whole) return RespOutcome::refused;
  if (rest.size() < whole) return RespOutcome::more;
  if (!rest.ends_with(kLineEnd)) return RespOutcome::refused;
  *reply = {RespReply::Kind::value, WipedText(rest.substr(0, bytes))};
  return RespOutcome::reply;
}

}  // namespace

WipedText encode_command(std::initializer_list<std::string_view> words) {
  WipedText command = "*";
  command.append(std::to_string(words.size())).append(kLineEnd);
  for (const std::string_view word : words) {
    command.append("$").append(std::to_string(word.size()));
    command += kLineEnd;
    command += word;
    command += kLineEnd;
  }
  return command;
}

RespOutcome parse_reply(std::string_view bytes, RespReply* reply) {
  if (bytes.empty()) return RespOutcome::more;
  if (std::string_view("+-:$").find(bytes.front()) == std::string_view::npos) {
    return RespOutcome::refused;
  }
  const size_t end = bytes.substr(0, kReplyLineMax).find(kLineEnd);
  if (end == std::string_view::npos) {
    return bytes.size() < kReplyLineMax ? RespOutcome::more : RespOutcome::refused;
  }
  const std::string_view line = bytes.substr(1, end - 1);
  const std::string_view rest = bytes.substr(end + kLineEnd.size());
  if (bytes.front() == '$') return parse_value(line, rest, reply);
  if (!rest.empty()) return RespOutcome::refused;
  const auto kind = bytes.front() == '+'   ? RespReply::Kind::line
                    : bytes.front() == '-' ? RespReply::Kind::error
                                           : RespReply::Kind::number;
  *reply = {kind, WipedText(line)};
  return RespOutcome::reply;
}

}  // namespace nezha::rendezvous
