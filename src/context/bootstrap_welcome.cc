// Bootstrap: rank 0 gathers what all ranks say of themselves and welcomes them; the others wait for that.
#include <algorithm>
#include <ctime>

#include "base/check.h"
#include "base/clean_text.h"
#include "context/bootstrap.h"
#include "rendezvous/waiting.h"

namespace nezha::context {
namespace {

constexpr size_t kAbsentMax = 64;  // ranks that are looked for, and named, at once

Welcome assembled(const WelcomeRecord& head, const std::vector<std::string>& parts, size_t ranks) {
  Welcome welcome;
  NEZHA_CHECK(begin(encode(head), &welcome));
  for (const std::string& part : parts) NEZHA_CHECK(add_part(part, ranks, &welcome).empty());
  return welcome;
}

// The decoded records, by rank; one that cannot be read is empty.
std::vector<JoinRecord> read_all(const std::vector<std::string>& joined) {
  std::vector<JoinRecord> records(joined.size());
  for (size_t rank = 0; rank < joined.size(); ++rank) decode(joined[rank], &records[rank]);
  return records;
}

// "1, 2, 5"
std::string list(const std::vector<int>& absent) {
  std::string text;
  for (const int rank : absent) text += (text.empty() ? "" : ", ") + std::to_string(rank);
  return absent.size() < kAbsentMax ? text : text + " and perhaps more";
}

}  // namespace

// Reads a rank's record, also one that was read before: a process that was restarted meanwhile has
// a fresh nonce.
Status Bootstrap::look_for(int rank, bool first, std::string* joined) {
  auto blob = look_at(join_key(rank), look_at_one_of_many(first || !joined->empty()));
  if (blob) *joined = *blob;
  return blob || blob.status().code() == Code::timed_out ? Status::ok() : blob.status();
}

// Rank 0: waits for the records of all ranks, then publishes them all, until all ranks have read
// the same welcome.
Result<Welcome> Bootstrap::gather() {
  std::vector<std::string> joined(static_cast<size_t>(request_.world_size));
  std::vector<std::string> published;
  std::vector<std::string> parts;
  Welcome welcome;
  while (true) {
    if (request_.store_outlives_job) NEZHA_RETURN_IF_ERROR(beat());
    std::vector<int> absent;
    for (size_t rank = 0; rank < joined.size() && absent.size() < kAbsentMax; ++rank) {
      NEZHA_RETURN_IF_ERROR(look_for(static_cast<int>(rank), absent.empty(), &joined[rank]));
      if (joined[rank].empty()) absent.push_back(static_cast<int>(rank));
    }
    if (!joined[0].empty() && joined[0] != self_) return taken();
    if (absent.empty()) {
      const bool news = joined != published;
      if (news) {
        published = joined;
        ++sequence_;
        parts = parts_of(hand_over(joined), agreed_text());
        const WelcomeRecord head{nonce_, sequence_, agreed_text(), parts.size()};
        welcome = assembled(head, parts, joined.size());
      }
      // A store that was restarted may have lost the welcome.
      if (news || request_.store_outlives_job) {
        NEZHA_RETURN_IF_ERROR(publish(welcome.head, parts));
      }
      absent = unconfirmed();
      if (absent.empty()) break;
    }
    // An earlier process of this rank has removed its keys, and with them this process's record.
    if (joined[0].empty()) NEZHA_RETURN_IF_ERROR(announce());
    if (rendezvous::expired(request_.deadline, clock_)) {
      const std::string store = store_.describe();
      return error(Code::timed_out, "rank 0 waited at %s, but rank %s of %d did not join; %s; raise "
                   "connect_timeout_s, or the timeout given to init, if they start later%s",
                   store.c_str(), list(absent).c_str(), request_.world_size,
                   rendezvous::what_to_check(store, "each").c_str(), about_strangers().c_str())
          .with({.ranks = absent});
    }
    log_wait("rank " + list(absent) + " of " + std::to_string(request_.world_size) + " did not join yet");
  }
  NEZHA_RETURN_IF_ERROR(say(nonce_ + "/go", std::to_string(sequence_)));
  remove_welcome();
  return welcome;
}

// Writes the parts first, so that a rank that finds the head finds them, too.
Status Bootstrap::publish(const WelcomeRecord& head, const std::vector<std::string>& parts) {
  for (size_t part = 0; part < parts.size(); ++part) {
    part_keys_.insert(part_key(head, part));
    NEZHA_RETURN_IF_ERROR(say(part_key(head, part), parts[part]));
  }
  welcome_stays_ = true;  // even if the write fails
  return say("welcome", encode(head));
}

// Puts the job's secret beside the record of each rank, so that only that rank can read it. A
// configured secret is not handed out, because every rank of the job has it. If the ranks are
// on several hosts and need a configured secret, none is handed out, either.
std::vector<WelcomePart::Entry> Bootstrap::hand_over(const std::vector<std::string>& joined) const {
  std::vector<WelcomePart::Entry> entries;
  for (const std::string& words : joined) entries.push_back({words});
  if (has_secret_) return entries;
  const std::vector<JoinRecord> records = read_all(joined);
  if (lacks_secret(records) != 0) return entries;
  for (size_t rank = 1; rank < joined.size(); ++rank) {
    // A rank whose key is not valid gets no secret, and reports that itself.
    auto shared = keys_->shared_with(records[rank].key);
    if (shared) entries[rank].told = wire::hidden(*shared, secret_);
  }
  return entries;
}

int Bootstrap::lacks_secret(const std::vector<JoinRecord>& ranks) const {
  if (has_secret_ || request_.store_is_private || config_.authentication == "off") return 0;
  const auto other = std::find_if(ranks.begin(), ranks.end(), [&](const JoinRecord& rank) {
    return rank.address.host != ranks.front().address.host;
  });
  return other == ranks.end() ? 0 : static_cast<int>(other - ranks.begin());
}

Status Bootstrap::without_secret(const std::vector<JoinRecord>& ranks, int other) const {
  const auto name = [&](int rank) {
    const std::string& host = ranks[static_cast<size_t>(rank)].address.host;
    return host.substr(host.rfind('/') + 1);
  };
  return error(Code::invalid_argument,
               "rank %d: rank 0 is on the host %s and rank %d on another, %s, and the job has no secret, "
               "so that whoever can reach its store, %s, could join it. Make one, `(umask 077; openssl "
               "rand -hex 32 > ~/.nezha.secret)`, and set NEZHA_SECRET_FILE to such a file with the same "
               "content on every rank, or start the job with `nezha run`; NEZHA_AUTHENTICATION=off on "
               "every rank goes without",
               request_.rank, name(0).c_str(), other, name(other).c_str(), store_.describe().c_str())
      .with({.ranks = {0, other}});
}

// Finds the ranks that have not confirmed the latest welcome: they are about to, or the welcome has
// not their record but one that an earlier process of their rank left behind.
std::vector<int> Bootstrap::unconfirmed() {
  std::vector<int> absent;
  for (int rank = 1; rank < request_.world_size && absent.size() < kAbsentMax; ++rank) {
    if (look_at(read_key(nonce_, sequence_, rank), look_at_one_of_many(absent.empty()))) continue;
    absent.push_back(rank);
  }
  return absent;
}

// The time at which one look at a key that may still change ends.
Nanoseconds Bootstrap::next_look() const {
  return request_.store_outlives_job ? std::min(clock_.now() + kLook, lines_.next()) : lines_.next();
}

// The time at which rank 0's look at the key of one of many ranks ends. It waits only for the first
// rank that is absent, so that it keeps beating, and so that it has looked at the keys of all
// ranks, also after its deadline, before it says which are absent.
Nanoseconds Bootstrap::look_at_one_of_many(bool waits) const {
  const Nanoseconds glance = clock_.now() + kGlance;
  return waits ? std::max(next_look(), glance) : glance;
}

Result<Welcome> Bootstrap::await_welcome() {
  std::string world;  // rank 0's last words, where this rank does not fit them
  WipedText seen;     // the head whose parts were read last
  Welcome read;       // the last that named us: rank 0 removes it when all have read it
  std::string unread;  // why this rank cannot read the present one
  while (true) {
    const bool waits = read.entries.empty();
    auto head = look_at("welcome", waits ? next_look() : clock_.now() + kGlance);
    if (!head && head.status().code() != Code::timed_out) return ended(head.status());
    if (head && *head != seen) {
      auto welcome = read_welcome(*head);
      unread = welcome ? "" : "; " + welcome.status().message();
      if (welcome) seen = *head;
      if (welcome && names_me(*welcome)) read = std::move(*welcome);
      // A welcome that an earlier run left behind may be of another size, or lack parts.
      if (!welcome && !request_.store_outlives_job) return welcome.status();
    }
    const bool mine = !read.entries.empty();
    if (mine) {
      welcome_stays_ = true;
      auto settled = confirm(read.head);
      if (!settled) return settled.status();
      if (*settled) {
        welcome_stays_ = false;  // rank 0 removes it
        return read;
      }
    }
    if (rendezvous::expired(request_.deadline, clock_)) {
      return error(Code::timed_out, "rank %d: not all ranks joined the job at %s in time; rank 0 says "
                   "which are absent, and what to check%s%s%s%s",
                   request_.rank, store_.describe().c_str(), about_strangers().c_str(), unread.c_str(),
                   mine || seen.empty() ? ""
                                        : "; rank 0's welcome there is of a run without this process",
                   world.empty() ? "" : ("; perhaps " + check_world(world).message()).c_str());
    }
    log_wait("it has joined, and not all others have; rank 0 knows which");
    if (request_.store_outlives_job) NEZHA_RETURN_IF_ERROR(check_company(&world));
    // This is an earlier run's welcome: wait until rank 0 of this run replaces it.
    const timespec pause{0, 20'000'000};
    if (head && !mine) nanosleep(&pause, nullptr);
  }
}

Result<Welcome> Bootstrap::read_welcome(const WipedText& head) {
  Welcome welcome;
  if (!begin(head, &welcome)) return unreadable(0);
  for (size_t part = 0; part < welcome.head.parts; ++part) {
    const std::string key = part_key(welcome.head, part);
    auto bytes = look_at(key, request_.store_outlives_job ? next_look() : request_.deadline);
    const std::string wrong = !bytes ? bytes.status().message()
                              : add_part(*bytes, static_cast<size_t>(request_.world_size), &welcome);
    if (wrong.empty()) continue;
    return error(bytes ? Code::invalid_argument : bytes.status().code(), "rank %d cannot use part %zu of "
                 "%zu of rank 0's welcome, the key '%s' at %s: %s", request_.rank, part + 1,
                 static_cast<size_t>(welcome.head.parts), key.c_str(), store_.describe().c_str(),
                 wrong.c_str());
  }
  if (welcome.entries.size() == static_cast<size_t>(request_.world_size)) return welcome;
  return error(Code::invalid_argument, "rank %d: rank 0's welcome at %s ends with rank %zu of %d",
               request_.rank, store_.describe().c_str(), welcome.entries.size() - 1, request_.world_size);
}

// Says that this rank has read the welcome. True when rank 0 knows that of all ranks, so that no
// record in it is of an earlier run.
Result<bool> Bootstrap::confirm(const WelcomeRecord& record) {
  if (request_.store_outlives_job) {
    // A process that does not fit must not confirm: rank 0 then waits for one that does.
    const auto world = store_.get("world", next_look());
    if (!world && world.status().code() != Code::timed_out) return world.status();
    if (!world || parse_world(world.value()).nonce != record.session) return false;
    NEZHA_RETURN_IF_ERROR(check_world(world.value()));
  }
  NEZHA_RETURN_IF_ERROR(say(read_key(record.session, record.sequence, request_.rank), kSign));
  auto go = look_at(record.session + "/go", next_look());
  if (!go && go.status().code() != Code::timed_out) return go.status();
  return go && std::string_view(*go) == std::to_string(record.sequence);
}

// The error if something goes wrong while this rank waits at a store that outlives jobs: another
// process writes this rank's record, or rank 0 is alive and its job is another one. `world` becomes
// what rank 0 said last, if this rank does not fit it.
Status Bootstrap::check_company(std::string* world) {
  const auto glance = [&](const std::string& key) {
    return store_.get(key, std::min(clock_.now() + kGlance, request_.deadline));
  };
  const auto words = glance(join_key(request_.rank));
  WipedText record;
  if (words && !opened(join_key(request_.rank), words.value(), &record)) return overwritten();
  if (words && std::string_view(record) != self_) return taken();
  // An earlier process of this rank has removed its keys, and with them this process's record.
  if (!words && words.status().code() == Code::timed_out) NEZHA_RETURN_IF_ERROR(announce());
  const auto said = glance("world");
  if (!said) return Status::ok();
  Status fits = check_world(said.value());
  if (fits) {
    world->clear();
    return Status::ok();
  }
  if (!world->empty() && *world != std::string_view(said.value())) return fits;
  *world = said.value();
  return Status::ok();
}

Result<Session> Bootstrap::parse_welcome(const Welcome& welcome) const {
  const WelcomeRecord& record = welcome.head;
  Session session;
  session.id = record.session;
  for (const char digit : session.id) session.job = session.job * 131 + static_cast<uint8_t>(digit);
  std::vector<JoinRecord> ranks;
  for (int rank = 0; rank < request_.world_size; ++rank) {
    JoinRecord& joined = ranks.emplace_back();
    if (!read_joined(welcome, static_cast<size_t>(rank), &joined) || joined.address.rank != rank) {
      return unreadable(rank);
    }
    if (joined.agreed != record.agreed) {
      constexpr size_t kShown = 4096;
      return error(Code::mismatch, "rank %d is configured with %s, but rank 0 with %s; these must be "
                   "equal on all ranks", rank, cleaned(joined.agreed, kShown).c_str(),
                   cleaned(record.agreed, kShown).c_str())
          .with({.ranks = {0, rank}});
    }
  }
  if (const int other = lacks_secret(ranks); other != 0) return without_secret(ranks, other);
  auto secret = secret_of_job(welcome, ranks.front());
  if (!secret) return secret.status();
  session.secret = wire::session_secret_of(*secret, welcome.bytes);
  for (JoinRecord& rank : ranks) session.ranks.push_back(std::move(rank.address));
  return session;
}

// The job's secret: the configured one, or the one that rank 0 made and told this rank.
Result<wire::Secret> Bootstrap::secret_of_job(const Welcome& welcome, const JoinRecord& rank0) const {
  const std::string& told = welcome.entries[static_cast<size_t>(request_.rank)].told;
  if (has_secret_ || request_.rank == 0) return secret_;
  auto shared = keys_->shared_with(rank0.key);
  if (!shared || told.empty()) return unreadable(0);
  return wire::shown(*shared, told);
}

}  // namespace nezha::context
