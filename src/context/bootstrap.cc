#include "context/bootstrap.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <new>
#include <span>

#include "base/check.h"
#include "base/file.h"
#include "base/log.h"
#include "rendezvous/waiting.h"
#include "wire/key_file.h"

namespace nezha::context {
namespace {

// How long one look at the store may take before the whole picture is looked at again.
constexpr Nanoseconds kLook = 200 * kMillisecond;
constexpr Nanoseconds kGlance = 10 * kMillisecond;
constexpr uint64_t kWorldVersion = 7;  // of how ranks meet
constexpr size_t kWorldBytesMax = 256;
constexpr size_t kAbsentMax = 64;  // ranks that are looked for, and named, at once
constexpr const char* kNoMark = "-";  // no configured secret
constexpr const char* kSign = "1";    // of which the key says everything
constexpr const char* kOutcome = "/outcome";

// "1, 2, 5"
std::string list(const std::vector<int>& absent) {
  std::string text;
  for (const int rank : absent) text += (text.empty() ? "" : ", ") + std::to_string(rank);
  return absent.size() < kAbsentMax ? text : text + " and perhaps more";
}

std::string hex(std::span<const std::byte> bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const std::byte byte : bytes) {
    text += kDigits[std::to_integer<int>(byte) >> 4];
    text += kDigits[std::to_integer<int>(byte) & 15];
  }
  return text;
}

std::string read_key(const std::string& session, uint64_t sequence, int rank) {
  return session + "/read/" + std::to_string(sequence) + "/" + std::to_string(rank);
}

std::string report_key(const Session& session, int rank) {
  return session.id + "/report/" + std::to_string(rank);
}

// The key "world", taken apart: "4 3 <nonce> <mark> 17".
struct WorldWords {
  std::string size;
  uint64_t version = 0;
  std::string nonce;
  std::string mark;
};

std::string_view take_word(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  const std::string_view word = text.substr(0, text.find(' '));
  text.remove_prefix(word.size());
  return word;
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

}  // namespace

Result<std::optional<wire::Secret>> configured_secret(const Config& config) {
  if (config.secret.empty() && config.secret_file.empty()) return std::optional<wire::Secret>();
  auto secret = config.secret.empty() ? wire::read_key_file("secret_file", config.secret_file)
                                      : wire::key_from_text("secret", config.secret);
  if (!secret) return secret.status();
  return std::optional<wire::Secret>(*secret);
}

std::string host_identity() {
  constexpr size_t kUuidBytes = 36;
  const auto boot = read_file("/proc/sys/kernel/random/boot_id", kUuidBytes);
  std::string identity = boot ? boot.value() : "";
  struct stat network {};
  if (stat("/proc/self/ns/net", &network) == 0) identity += "/" + std::to_string(network.st_ino);
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return identity + "/" + name.data();
}

Bootstrap::Bootstrap(rendezvous::Store& store, const Config& config, BootstrapRequest request)
    : store_(store),
      config_(config),
      request_(std::move(request)),
      has_secret_(request_.secret.has_value()) {}

Bootstrap::~Bootstrap() {
  try {
    remove_welcome();
  } catch (const std::bad_alloc&) {
    // Without memory nothing can be said to a store.
  }
}

WipedText Bootstrap::sealed(const std::string& key, std::string_view record) const {
  return has_secret_ ? seal(secret_, request_.job + "/" + key, record) : WipedText(record);
}

bool Bootstrap::opened(const std::string& key, const WipedText& bytes, WipedText* record) {
  if (has_secret_ && !unseal(secret_, request_.job + "/" + key, bytes, record)) {
    without_proof_ = key;
    return false;
  }
  if (!has_secret_) *record = bytes;
  return true;
}

// One look at a record: what is there without a proof is not there. (An earlier run with another secret
// left it, or somebody is at work who should not be.)
Result<WipedText> Bootstrap::look_at(const std::string& key, Nanoseconds until) {
  auto bytes = store_.get(key, until);
  if (!bytes) return bytes;
  WipedText record;
  if (opened(key, *bytes, &record)) return record;
  const timespec pause{0, 20'000'000};
  nanosleep(&pause, nullptr);
  return error(Code::timed_out, "no rank of this job wrote the key '%s'", key.c_str());
}

// Looks until it is there.
Result<WipedText> Bootstrap::await(const std::string& key, Nanoseconds until) {
  while (true) {
    auto record = look_at(key, until);
    if (record || record.status().code() != Code::timed_out || rendezvous::expired(until)) return record;
  }
}

// What this rank says to the others, and nobody else can.
Status Bootstrap::say(const std::string& key, std::string_view words) {
  return store_.set(key, sealed(key, words), request_.deadline);
}

std::string Bootstrap::about_strangers() const {
  if (without_proof_.empty()) return "";
  return "; the key '" + without_proof_ + "' there was written by somebody without the job's secret";
}

// Nobody else's: another run of the job may have begun there.
void Bootstrap::remove_welcome() {
  if (!welcome_stays_) return;
  auto welcome = store_.get("welcome", system_clock().now() + kLook);
  Status removed = welcome.status();
  if (welcome && welcome->find(nonce_) != std::string::npos) {
    removed = store_.remove("welcome", system_clock().now() + kSecond);
  }
  welcome_stays_ = !removed && removed.code() != Code::timed_out;
  if (welcome_stays_) NEZHA_LOG(debug, "bootstrap", "%s", removed.to_string().c_str());
}

// Whether rank 0 read what this rank said of itself, to the byte.
bool Bootstrap::names_me(const Welcome& welcome) const {
  JoinRecord mine;
  return read_joined(welcome, static_cast<size_t>(request_.rank), &mine) && encode(mine) == self_;
}

std::string Bootstrap::join_key(int rank) const {
  return "join/" + std::to_string(request_.world_size) + "/" + std::to_string(rank);
}

// The configuration that must be equal everywhere.
std::string Bootstrap::agreed_text() const {
  return config_.agreed_fingerprint_text() + " calibration=" + request_.calibration +
         " algorithm_file=" + request_.algorithm_file;
}

std::string Bootstrap::describe_self() const {
  return encode(JoinRecord{nonce_, agreed_text(),
                           {request_.rank, config_.host_id.empty() ? host_identity() : config_.host_id,
                            request_.rails}});
}

Result<Session> Bootstrap::meet() {
  auto nonce = wire::random_nonce();
  if (!nonce) return nonce.status();
  nonce_ = hex(*nonce);
  auto secret = has_secret_ ? Result<wire::Secret>(*request_.secret) : wire::random_secret();
  if (!secret) return secret.status();
  secret_ = *secret;
  NEZHA_RETURN_IF_ERROR(open_world());
  NEZHA_RETURN_IF_ERROR(announce());
  auto welcome = request_.rank == 0 ? gather() : await_welcome();
  if (!welcome) return welcome.status();
  return parse_welcome(*welcome);
}

std::string Bootstrap::world_words() const {
  const std::string words =
      std::to_string(request_.world_size) + " " + std::to_string(kWorldVersion) + " " + nonce_;
  return words + " " + (has_secret_ ? hex(wire::mark_of(secret_, words)) : kNoMark);
}

// A store that lives as long as the job knows the one true job, so whoever does not fit never announces
// itself. In another store the words may be an earlier run's, so they only count when they change:
// await_welcome() watches them.
Status Bootstrap::open_world() {
  if (request_.store_outlives_job) return request_.rank == 0 ? beat() : Status::ok();
  const WipedText mine(world_words());
  auto world = request_.rank == 0 ? store_.set_if_absent("world", mine, request_.deadline)
                                  : store_.get("world", request_.deadline);
  if (!world) {
    return error(world.status().code(), "rank %d: rank 0 did not open the job at %s: %s",
                 request_.rank, store_.describe().c_str(), world.status().message().c_str());
  }
  if (*world == mine) return Status::ok();
  NEZHA_RETURN_IF_ERROR(check_world(*world));
  return request_.rank == 0 ? taken() : Status::ok();
}

// Whether this rank fits into the job that rank 0 announced.
Status Bootstrap::check_world(std::string_view world) const {
  const WorldWords words = parse_world(world);
  const std::string store = store_.describe();
  if (words.version != kWorldVersion) {
    return error(Code::mismatch, "rank %d has rendezvous version %llu, but rank 0 of the job at %s has "
                 "version %llu; install the same version of Nezha everywhere", request_.rank,
                 static_cast<unsigned long long>(kWorldVersion), store.c_str(),
                 static_cast<unsigned long long>(words.version));
  }
  if (words.size != std::to_string(request_.world_size)) {
    return error(Code::invalid_argument, "rank %d was started with world size %d, but the job at %s "
                 "has world size %s; start every rank with the same WORLD_SIZE", request_.rank,
                 request_.world_size, store.c_str(), words.size.c_str());
  }
  return check_mark(words.size + " " + std::to_string(words.version) + " " + words.nonce, words.mark);
}

Status Bootstrap::check_mark(const std::string& words, const std::string& mark) const {
  const bool job_has_secret = mark != kNoMark;
  if (has_secret_ && !job_has_secret) {
    return error(Code::invalid_argument, "rank %d has a configured secret, but rank 0 has none; set "
                 "NEZHA_SECRET_FILE on every rank or on none", request_.rank);
  }
  if (!has_secret_ && job_has_secret) {
    return error(Code::invalid_argument, "rank %d: the job has a configured secret, but this rank "
                 "has none; set NEZHA_SECRET_FILE on every rank", request_.rank);
  }
  if (!has_secret_ || mark == hex(wire::mark_of(secret_, words))) return Status::ok();
  return error(Code::invalid_argument, "rank %d has another secret than rank 0 of the job at %s; give "
               "all ranks of a job the same one (NEZHA_SECRET_FILE)", request_.rank,
               store_.describe().c_str());
}

// Rank 0 is alive, and says so again and again.
Status Bootstrap::beat() {
  return store_.set("world", world_words() + " " + std::to_string(beats_++), request_.deadline);
}

Status Bootstrap::announce() {
  self_ = describe_self();
  const std::string key = join_key(request_.rank);
  const WipedText words = sealed(key, self_);
  if (request_.store_outlives_job) return store_.set(key, words, request_.deadline);
  auto winner = store_.set_if_absent(key, words, request_.deadline);
  if (!winner) return winner.status();
  return *winner == words ? Status::ok() : taken();
}

Status Bootstrap::taken() const {
  return error(Code::invalid_argument, "rank %d is taken: another process joined the job at %s with "
               "the same rank; give every process its own RANK, and jobs that run at the same time "
               "their own job name", request_.rank, store_.describe().c_str());
}

Status Bootstrap::overwritten() const {
  return error(Code::invalid_argument, "rank %d: the record of this rank in the store %s was "
               "overwritten without the job's secret; let nobody else write there", request_.rank,
               store_.describe().c_str());
}

// Reads again what a rank said before: a process restarted meanwhile has a fresh nonce. Of several absent
// ranks only the `first` is waited for, so that rank 0 keeps beating.
Status Bootstrap::look_for(int rank, bool first, std::string* joined) {
  const bool wait_for_long = joined->empty() && !request_.store_outlives_job;
  const Nanoseconds look = joined->empty() && !first ? kGlance : kLook;
  const Nanoseconds until =
      wait_for_long ? request_.deadline : std::min(system_clock().now() + look, request_.deadline);
  auto blob = look_at(join_key(rank), until);
  if (blob) *joined = *blob;
  return blob || blob.status().code() == Code::timed_out ? Status::ok() : blob.status();
}

// Rank 0: waits for everybody, then answers with everybody's words, until all have read the same ones.
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
        parts = parts_of(joined, agreed_text());
        welcome = make_welcome(parts);
      }
      // A store that was restarted may have forgotten it.
      if (news || request_.store_outlives_job) {
        NEZHA_RETURN_IF_ERROR(publish(welcome.head, parts));
      }
      absent = unconfirmed();
      if (absent.empty()) break;
    }
    // An earlier process of this rank tidied up after itself.
    if (joined[0].empty()) NEZHA_RETURN_IF_ERROR(announce());
    if (rendezvous::expired(request_.deadline)) {
      return error(Code::timed_out, "rank 0 waited at %s, but rank %s of %d did not join; raise "
                   "connect_timeout_s if they start later%s", store_.describe().c_str(),
                   list(absent).c_str(), request_.world_size, about_strangers().c_str())
          .with({.ranks = absent});
    }
  }
  NEZHA_RETURN_IF_ERROR(say(nonce_ + "/go", std::to_string(sequence_)));
  remove_welcome();
  return welcome;
}

// The parts first: where the head is, they are.
Status Bootstrap::publish(const WelcomeRecord& head, const std::vector<std::string>& parts) {
  for (size_t part = 0; part < parts.size(); ++part) {
    part_keys_.insert(part_key(head, part));
    NEZHA_RETURN_IF_ERROR(say(part_key(head, part), parts[part]));
  }
  welcome_stays_ = true;  // from the first attempt on
  return say("welcome", encode(head));
}

// As whoever reads these parts has it.
Welcome Bootstrap::make_welcome(const std::vector<std::string>& parts) const {
  Welcome welcome;
  // A configured secret is not handed out: everybody has it, or has no business here.
  const WelcomeRecord head{nonce_, sequence_, !has_secret_, has_secret_ ? wire::Secret{} : secret_,
                           agreed_text(), parts.size()};
  NEZHA_CHECK(begin(encode(head), &welcome));
  for (const std::string& part : parts) {
    NEZHA_CHECK(add_part(part, static_cast<size_t>(request_.world_size), &welcome).empty());
  }
  return welcome;
}

// The ranks that have not read the latest welcome: they are about to, or what is in it is not theirs but
// what an earlier process of their rank left behind.
std::vector<int> Bootstrap::unconfirmed() {
  std::vector<int> absent;
  for (int rank = 1; rank < request_.world_size && absent.size() < kAbsentMax; ++rank) {
    const Nanoseconds until = system_clock().now() + (absent.empty() ? kLook : kGlance);
    if (look_at(read_key(nonce_, sequence_, rank), std::min(until, request_.deadline))) continue;
    absent.push_back(rank);
  }
  return absent;
}

// How long one look at what may still change takes.
Nanoseconds Bootstrap::next_look() const {
  return request_.store_outlives_job ? std::min(system_clock().now() + kLook, request_.deadline)
                                     : request_.deadline;
}

Result<Welcome> Bootstrap::await_welcome() {
  std::string world;  // of another size
  WipedText seen;     // the head whose parts were read last
  Welcome read;       // the last that named us: rank 0 removes it when all have read it
  std::string unread;  // what keeps us from reading the present one
  while (true) {
    const bool waits = read.joined.empty();
    auto head = look_at("welcome", waits ? next_look() : system_clock().now() + kGlance);
    if (!head && head.status().code() != Code::timed_out) return head.status();
    if (head && *head != seen) {
      auto welcome = read_welcome(*head);
      unread = welcome ? "" : "; " + welcome.status().message();
      if (welcome) seen = *head;
      if (welcome && names_me(*welcome)) read = std::move(*welcome);
      // What an earlier run left behind may be of another size, or in part gone.
      if (!welcome && !request_.store_outlives_job) return welcome.status();
    }
    const bool mine = !read.joined.empty();
    if (mine) {
      welcome_stays_ = true;
      auto settled = confirm(read.head);
      if (!settled) return settled.status();
      if (*settled) {
        welcome_stays_ = false;  // rank 0 removes it
        return read;
      }
    }
    if (rendezvous::expired(request_.deadline)) {
      return error(Code::timed_out, "rank %d: not all ranks joined the job at %s in time%s%s%s%s",
                   request_.rank, store_.describe().c_str(), about_strangers().c_str(), unread.c_str(),
                   mine || seen.empty() ? ""
                                        : "; rank 0's welcome there is of a run without this process",
                   world.empty() ? "" : ("; perhaps " + check_world(world).message()).c_str());
    }
    if (request_.store_outlives_job) NEZHA_RETURN_IF_ERROR(check_company(&world));
    // An earlier run's welcome: wait until rank 0 of this run replaces it.
    const timespec pause{0, 20'000'000};
    if (head && !mine) nanosleep(&pause, nullptr);
  }
}

Result<Welcome> Bootstrap::read_welcome(const WipedText& head) {
  Welcome welcome;
  if (!begin(head, &welcome)) return unreadable(0);
  for (size_t part = 0; part < welcome.head.parts; ++part) {
    const std::string key = part_key(welcome.head, part);
    auto bytes = look_at(key, next_look());
    const std::string wrong = !bytes ? bytes.status().message()
                              : add_part(*bytes, static_cast<size_t>(request_.world_size), &welcome);
    if (wrong.empty()) continue;
    return error(bytes ? Code::invalid_argument : bytes.status().code(), "rank %d cannot use part %zu of "
                 "%zu of rank 0's welcome, the key '%s' at %s: %s", request_.rank, part + 1,
                 static_cast<size_t>(welcome.head.parts), key.c_str(), store_.describe().c_str(),
                 wrong.c_str());
  }
  if (welcome.joined.size() == static_cast<size_t>(request_.world_size)) return welcome;
  return error(Code::invalid_argument, "rank %d: rank 0's welcome at %s ends with rank %zu of %d",
               request_.rank, store_.describe().c_str(), welcome.joined.size() - 1, request_.world_size);
}

// Says that this rank has read it. True when rank 0 knows that of everybody, so that none of the words in
// it are those of an earlier run.
Result<bool> Bootstrap::confirm(const WelcomeRecord& record) {
  if (request_.store_outlives_job) {
    // Whoever does not fit must not confirm: rank 0 then waits for one that does.
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

// What goes wrong while waiting at a store that outlives jobs: another process writes this rank's words,
// or rank 0 is alive and its job is not ours. `world` is what rank 0 said last, if so.
Status Bootstrap::check_company(std::string* world) {
  const auto glance = [&](const std::string& key) {
    return store_.get(key, std::min(system_clock().now() + kGlance, request_.deadline));
  };
  const auto words = glance(join_key(request_.rank));
  WipedText record;
  if (words && !opened(join_key(request_.rank), words.value(), &record)) return overwritten();
  if (words && std::string_view(record) != self_) return taken();
  // An earlier process of this rank tidied up after itself.
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
  // open_world() and confirm() have agreed on that.
  if (record.has_secret == has_secret_) return unreadable(0);
  session.secret = wire::session_secret_of(has_secret_ ? secret_ : record.secret, welcome.bytes);
  for (const char digit : session.id) session.job = session.job * 131 + static_cast<uint8_t>(digit);
  for (int rank = 0; rank < request_.world_size; ++rank) {
    JoinRecord joined;
    if (!read_joined(welcome, static_cast<size_t>(rank), &joined) || joined.address.rank != rank) {
      return unreadable(rank);
    }
    if (joined.agreed != record.agreed) {
      return error(Code::mismatch, "rank %d is configured with %s, but rank 0 with %s; these must be "
                   "equal on all ranks", rank, joined.agreed.c_str(), record.agreed.c_str())
          .with({.ranks = {0, rank}});
    }
    session.ranks.push_back(std::move(joined.address));
  }
  return session;
}

Status Bootstrap::unreadable(int rank) const {
  return error(Code::invalid_argument, "rank %d cannot read the record of rank %d in the store %s; run "
               "the same version of Nezha on all ranks, and let nobody else write there",
               request_.rank, rank, store_.describe().c_str());
}

Result<Bootstrap::LeftOut> Bootstrap::report(const Session& session, const Status& outcome,
                                             const std::vector<std::string>& left_out) {
  ReportRecord record{outcome, request_.left_out};
  record.left_out.insert(record.left_out.end(), left_out.begin(), left_out.end());
  NEZHA_RETURN_IF_ERROR(say(report_key(session, request_.rank), encode(record)));
  Result<LeftOut> all = !outcome ? Result<LeftOut>(outcome)
                        : request_.rank == 0 ? hear_reports(session)
                                             : hear_outcome(session);
  // Whatever came out: the others wait for it.
  if (request_.rank == 0) {
    const ReportRecord told{all.status(), all ? *all : LeftOut()};
    NEZHA_RETURN_IF_ERROR(say(session.id + kOutcome, encode(told)));
  }
  // And this rank needs the store no more.
  NEZHA_RETURN_IF_ERROR(say(session.id + "/done/" + std::to_string(request_.rank), kSign));
  return all;
}

Result<Bootstrap::LeftOut> Bootstrap::hear_reports(const Session& session) {
  LeftOut all;
  size_t untold = 0;
  for (int rank = 0; rank < request_.world_size; ++rank) {
    auto blob = await(report_key(session, rank), request_.deadline);
    if (!blob) return blob.status();
    ReportRecord record;
    if (!decode(*blob, &record)) return unreadable(rank);
    if (!record.outcome.is_ok()) return record.outcome;
    for (std::string& sentence : record.left_out) {
      if (all.size() + 1 < kLeftOutMax) {
        all.push_back(std::move(sentence));
      } else {
        ++untold;
      }
    }
  }
  if (untold > 0) {
    all.push_back("and " + std::to_string(untold) + " more; `nezha info` on a host names its own");
  }
  return all;
}

Result<Bootstrap::LeftOut> Bootstrap::hear_outcome(const Session& session) {
  auto blob = await(session.id + kOutcome, request_.deadline);
  if (!blob) return blob.status();
  ReportRecord record;
  if (!decode(*blob, &record)) return unreadable(0);
  if (!record.outcome.is_ok()) return record.outcome;
  return std::move(record.left_out);
}

void Bootstrap::clean_up(const Session& session, Nanoseconds patience) {
  const auto key_of = [&](const char* kind, int rank) {
    return session.id + kind + std::to_string(rank);
  };
  remove_welcome();  // in case it could not be done before
  std::vector<std::string> keys = {join_key(request_.rank)};
  if (request_.rank == 0) {
    // Everybody must have read what rank 0 is about to take away.
    const Nanoseconds until = system_clock().now() + patience;
    for (int rank = 1; rank < request_.world_size; ++rank) {
      if (!await(key_of("/done/", rank), until)) return;
    }
    keys.insert(keys.end(), {"world", session.id + "/go", session.id + kOutcome});
    keys.insert(keys.end(), part_keys_.begin(), part_keys_.end());
    for (int rank = 0; rank < request_.world_size; ++rank) {
      for (const char* kind : {"/report/", "/done/"}) keys.push_back(key_of(kind, rank));
      for (uint64_t i = 1; i <= sequence_; ++i) keys.push_back(read_key(session.id, i, rank));
    }
  }
  if (!request_.store_outlives_job) return;
  const Nanoseconds soon = system_clock().now() + kSecond;
  for (const std::string& key : keys) {
    if (Status removed = store_.remove(key, soon); !removed) {
      NEZHA_LOG(debug, "bootstrap", "%s", removed.to_string().c_str());
      return;
    }
  }
}

}  // namespace nezha::context
