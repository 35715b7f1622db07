#include "context/world_words.h"

#include <algorithm>
#include <charconv>

#include "base/clean_text.h"
#include "base/hex.h"

namespace nezha::context {
namespace {

constexpr uint64_t kWorldVersion = 8;  // of how ranks meet
constexpr size_t kWorldBytesMax = 256;
constexpr const char* kNoMark = "-";  // no configured secret

std::string_view take_word(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  const std::string_view word = text.substr(0, text.find(' '));
  text.remove_prefix(word.size());
  return word;
}

Status check_mark(const std::string& words, const std::string& mark, const WorldMember& me,
                  const std::string& store) {
  const bool has_secret = me.secret != nullptr;
  const bool job_has_secret = mark != kNoMark;
  if (has_secret && !job_has_secret) {
    return error(Code::invalid_argument, "rank %d has a configured secret, but rank 0 has none; set "
                 "NEZHA_SECRET_FILE on every rank or on none", me.rank);
  }
  if (!has_secret && job_has_secret) {
    return error(Code::invalid_argument, "rank %d: the job has a configured secret, but this rank "
                 "has none; set NEZHA_SECRET_FILE on every rank", me.rank);
  }
  if (!has_secret || mark == hex(wire::mark_of(*me.secret, words))) return Status::ok();
  return error(Code::invalid_argument, "rank %d has another secret than rank 0 of the job at %s; give "
               "all ranks of a job the same one (NEZHA_SECRET_FILE)", me.rank,
               store.c_str());
}

}  // namespace

std::string world_words(const WorldMember& me, const std::string& nonce) {
  const std::string words =
      std::to_string(me.world_size) + " " + std::to_string(kWorldVersion) + " " + nonce;
  return words + " " + (me.secret != nullptr ? hex(wire::mark_of(*me.secret, words)) : kNoMark);
}

WorldWords parse_world(std::string_view text) {
  std::string_view left = text.substr(0, kWorldBytesMax);
  WorldWords words;
  words.size = take_word(left);
  const std::string_view version = take_word(left);
  std::from_chars(version.data(), version.data() + version.size(), words.version);
  words.nonce = take_word(left);
  words.mark = take_word(left);
  return words;
}

Status check_world(std::string_view world, const WorldMember& me, const std::string& store) {
  const WorldWords words = parse_world(world);
  if (words.version != kWorldVersion) {
    return error(Code::mismatch, "rank %d has rendezvous version %llu, but rank 0 of the job at %s has "
                 "version %llu; install the same version of Nezha everywhere", me.rank,
                 static_cast<unsigned long long>(kWorldVersion), store.c_str(),
                 static_cast<unsigned long long>(words.version));
  }
  if (words.size != std::to_string(me.world_size)) {
    constexpr size_t kShown = 20;
    return error(Code::invalid_argument, "rank %d was started with world size %d, but the job at %s "
                 "has world size %s; start every rank with the same WORLD_SIZE", me.rank,
                 me.world_size, store.c_str(), cleaned(words.size, kShown).c_str());
  }
  return check_mark(words.size + " " + std::to_string(words.version) + " " + words.nonce, words.mark,
                    me, store);
}

}  // namespace nezha::context
