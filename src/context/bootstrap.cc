#include "context/bootstrap.h"

#include <ctime>
#include <new>

#include "base/hex.h"
#include "base/log.h"
#include "context/identity.h"
#include "rendezvous/waiting.h"

namespace nezha::context {
namespace {

constexpr const char* kOutcome = "/outcome";

std::string report_key(const Session& session, int rank) {
  return session.id + "/report/" + std::to_string(rank);
}

}  // namespace

Bootstrap::Bootstrap(rendezvous::Store& store, const Config& config, BootstrapRequest request)
    : store_(store),
      config_(config),
      request_(std::move(request)),
      clock_(*request_.clock),
      lines_(clock_, request_.deadline,
             request_.rank == 0 ? rendezvous::WaitLines::Pace::steady
                                : rendezvous::WaitLines::Pace::doubling),
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

// Looks at a record once. One without a proof counts as absent: an earlier run with another secret
// left it, or somebody outside the job wrote it.
Result<WipedText> Bootstrap::look_at(const std::string& key, Nanoseconds until) {
  auto bytes = store_.get(key, until);
  if (!bytes) return bytes;
  WipedText record;
  if (opened(key, *bytes, &record)) return record;
  const timespec pause{0, 20'000'000};
  nanosleep(&pause, nullptr);
  return error(Code::timed_out, "no rank of this job wrote the key '%s'", key.c_str());
}

// Looks until the record is there. `what` is for the log: "rank 3 ...".
Result<WipedText> Bootstrap::await(const std::string& key, Nanoseconds until, const std::string& what) {
  while (true) {
    auto record = look_at(key, std::min(until, lines_.next()));
    if (record || record.status().code() != Code::timed_out || rendezvous::expired(until, clock_)) {
      return record;
    }
    log_wait(what);
  }
}

// Logs a line now and then while this rank waits.
void Bootstrap::log_wait(const std::string& what) {
  const int waited = lines_.due();
  if (waited == 0) return;
  NEZHA_LOG(warn, "bootstrap", "rank %d has waited %d s at %s: %s%s", request_.rank, waited,
            store_.describe().c_str(), what.c_str(), about_strangers().c_str());
}

// Sets a key of this rank for the other ranks to read. With a configured secret the value has a MAC,
// which only a process that knows the secret can make.
Status Bootstrap::say(const std::string& key, std::string_view words) {
  return store_.set(key, sealed(key, words), request_.deadline);
}

std::string Bootstrap::about_strangers() const {
  if (without_proof_.empty()) return "";
  return "; the key '" + without_proof_ + "' there was written by somebody without the job's secret";
}

// Removes only this run's welcome: another run of the job may have begun in the same store.
void Bootstrap::remove_welcome() {
  if (!welcome_stays_) return;
  auto welcome = store_.get("welcome", clock_.now() + kLook);
  Status removed = welcome.status();
  if (welcome && welcome->find(nonce_) != std::string::npos) {
    removed = store_.remove("welcome", clock_.now() + kSecond);
  }
  welcome_stays_ = !removed && removed.code() != Code::timed_out;
  if (welcome_stays_) NEZHA_LOG(debug, "bootstrap", "%s", removed.to_string().c_str());
}

// Whether the welcome has this rank's own record, to the byte.
bool Bootstrap::names_me(const Welcome& welcome) const {
  JoinRecord mine;
  return read_joined(welcome, static_cast<size_t>(request_.rank), &mine) && encode(mine) == self_;
}

std::string Bootstrap::read_key(const std::string& session, uint64_t sequence, int rank) {
  return session + "/read/" + std::to_string(sequence) + "/" + std::to_string(rank);
}

std::string Bootstrap::join_key(int rank) const {
  return "join/" + std::to_string(request_.world_size) + "/" + std::to_string(rank);
}

// The configuration that must be equal everywhere.
std::string Bootstrap::agreed_text() const {
  return config_.agreed_fingerprint_text() + " calibration=" + request_.calibration +
         " algorithm_file=" + request_.algorithm_file +
         (has_secret_ ? "" : " authentication=" + config_.authentication);
}

std::string Bootstrap::describe_self() const {
  return encode(JoinRecord{nonce_, agreed_text(),
                           {request_.rank, config_.host_id.empty() ? host_identity() : config_.host_id,
                            request_.rails},
                           keys_ ? keys_->public_key() : ""});
}

Result<Session> Bootstrap::meet() {
  auto nonce = wire::random_nonce();
  if (!nonce) return nonce.status();
  nonce_ = hex(*nonce);
  auto secret = has_secret_ ? Result<wire::Secret>(*request_.secret) : wire::random_secret();
  if (!secret) return secret.status();
  secret_ = *secret;
  if (!has_secret_) {
    auto keys = wire::KeyPair::make();
    if (!keys) return keys.status();
    keys_ = std::move(*keys);
  }
  NEZHA_RETURN_IF_ERROR(open_world());
  NEZHA_RETURN_IF_ERROR(announce());
  auto welcome = request_.rank == 0 ? gather() : await_welcome();
  if (!welcome) return welcome.status();
  auto session = parse_welcome(*welcome);
  if (!session) {
    // All ranks find the same error, if the store lives until all have read the welcome.
    Session refused;
    refused.id = welcome->head.session;
    NEZHA_RETURN_IF_ERROR(say(refused.id + "/done/" + std::to_string(request_.rank), kSign));
    clean_up(refused, static_cast<Nanoseconds>(config_.linger_s * kSecond));
  }
  return session;
}

// A store that lives as long as the job has keys of this job only, so a rank that does not fit never
// announces itself. In a store that outlives jobs a value may be an earlier run's, so it only counts
// when it changes: await_welcome() watches it.
Status Bootstrap::open_world() {
  if (request_.store_outlives_job) return request_.rank == 0 ? beat() : Status::ok();
  const WipedText mine(world_words(member(), nonce_));
  auto world = request_.rank == 0 ? store_.set_if_absent("world", mine, request_.deadline)
                                  : await_world();
  if (!world) {
    return error(world.status().code(), "rank %d: rank 0 did not open the job at %s: %s",
                 request_.rank, store_.describe().c_str(), world.status().message().c_str());
  }
  if (*world == mine) return Status::ok();
  NEZHA_RETURN_IF_ERROR(check_world(*world));
  return request_.rank == 0 ? taken() : Status::ok();
}

// Waits for the key "world". It has a mark in place of a proof, so that a rank without the secret,
// or with another one, can read it.
Result<WipedText> Bootstrap::await_world() {
  while (true) {
    auto world = store_.get("world", lines_.next());
    if (world || world.status().code() != Code::timed_out ||
        rendezvous::expired(request_.deadline, clock_)) {
      return world;
    }
    log_wait("rank 0 has not opened the job");
  }
}

// Rank 0 says again and again that it is alive.
Status Bootstrap::beat() {
  const std::string words = world_words(member(), nonce_) + " " + std::to_string(beats_++);
  return store_.set("world", words, request_.deadline);
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

Status Bootstrap::unreadable(int rank) const {
  return error(Code::invalid_argument, "rank %d cannot read the record of rank %d in the store %s; run "
               "the same version of Nezha on all ranks, and let nobody else write there",
               request_.rank, rank, store_.describe().c_str());
}

// Rank 0 serves a store that ends with the job, so a rank that loses the store has lost rank 0,
// whose own error has the reason.
Status Bootstrap::ended(const Status& why) const {
  if (why.code() != Code::peer_lost || request_.store_outlives_job || request_.rank == 0) return why;
  return error(Code::peer_lost, "rank %d: rank 0 ended before the job had formed; rank 0's error says "
               "why (%s)", request_.rank, why.message().c_str())
      .with({.ranks = {0}});
}

// The error where this rank waited for the word of `rank` on how connecting went, and has none.
Status Bootstrap::silent(int rank, const Status& why) const {
  if (why.code() != Code::timed_out) return ended(why);
  return error(Code::timed_out, "rank %d waited at %s, but rank %d, which had joined, did not say in "
               "time whether %s connected; find out what it does, or raise connect_timeout_s or the "
               "timeout given to init", request_.rank, store_.describe().c_str(), rank,
               rank == 0 ? "all ranks are" : "it is")
      .with({.ranks = {rank}});
}

Result<Bootstrap::LeftOut> Bootstrap::report(const Session& session, const Status& outcome,
                                             const std::vector<std::string>& left_out) {
  ReportRecord record{outcome, request_.left_out};
  record.left_out.insert(record.left_out.end(), left_out.begin(), left_out.end());
  NEZHA_RETURN_IF_ERROR(say(report_key(session, request_.rank), encode(record)));
  Result<LeftOut> all = !outcome ? Result<LeftOut>(outcome)
                        : request_.rank == 0 ? hear_reports(session)
                                             : hear_outcome(session);
  // Rank 0 tells every outcome, because the others wait for it.
  if (request_.rank == 0) {
    const ReportRecord told{all.status(), all ? *all : LeftOut()};
    NEZHA_RETURN_IF_ERROR(say(session.id + kOutcome, encode(told)));
  }
  // This rank needs the store no more. The outcome stands, whether rank 0 learns of that or not.
  const Status said = say(session.id + "/done/" + std::to_string(request_.rank), kSign);
  if (!said) NEZHA_LOG(debug, "bootstrap", "%s", said.to_string().c_str());
  return all;
}

Result<Bootstrap::LeftOut> Bootstrap::hear_reports(const Session& session) {
  LeftOut all;
  size_t untold = 0;
  for (int rank = 0; rank < request_.world_size; ++rank) {
    auto blob = await(report_key(session, rank), request_.deadline,
                      "rank " + std::to_string(rank) + " is still connecting");
    if (!blob) return silent(rank, blob.status());
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
  auto blob = await(session.id + kOutcome, request_.deadline,
                    "it has its connections, and rank 0 waits for those of others");
  if (!blob) return silent(0, blob.status());
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
    // All ranks must have read what rank 0 is about to remove.
    const Nanoseconds until = clock_.now() + patience;
    for (int rank = 1; rank < request_.world_size; ++rank) {
      if (!await(key_of("/done/", rank), until,
                 "rank " + std::to_string(rank) + " still reads there")) {
        return;
      }
    }
    keys.insert(keys.end(), {"world", session.id + "/go", session.id + kOutcome});
    keys.insert(keys.end(), part_keys_.begin(), part_keys_.end());
    for (int rank = 0; rank < request_.world_size; ++rank) {
      for (const char* kind : {"/report/", "/done/"}) keys.push_back(key_of(kind, rank));
      for (uint64_t i = 1; i <= sequence_; ++i) keys.push_back(read_key(session.id, i, rank));
    }
  }
  if (!request_.store_outlives_job) return;
  const Nanoseconds soon = clock_.now() + kSecond;
  for (const std::string& key : keys) {
    if (Status removed = store_.remove(key, soon); !removed) {
      NEZHA_LOG(debug, "bootstrap", "%s", removed.to_string().c_str());
      return;
    }
  }
}

}  // namespace nezha::context
