// Bootstrap: how the ranks of a job meet in a store and learn each other's addresses.
//
// Contract: blocking code with one deadline, called by the thread that makes a Context. While a rank
// waits for others, the log says so: at rank 0 every 10 s, with the ranks that are absent. A rank that
// does not fit (other world size, other version, other secret, a rank that is taken) is told why and
// fails at once; those already there do not notice. In a store that outlives the job all that looks
// like leftovers of an earlier run, so there a rank is told when it has seen rank 0 speak twice, and of
// two processes with one rank the one that came first gives way.
//
//   world                    how many ranks rank 0 expects, its version, its nonce, and a mark that tells
//                            who holds its configured secret; in a store that outlives the job also a
//                            count that rises as long as rank 0 waits
//   join/<world>/<rank>      what a rank says of itself, with a fresh nonce
//   welcome                  rank 0, once all have joined: the session, and how many parts follow. Rank
//                            0 removes it when all have read it, or when it gives up; another rank that
//                            gives up does so, too
//   <session>/welcome/N/K    rank 0: part K of the N-th welcome (welcome.h), with every rank's record,
//                            and for every rank the job's secret, which nobody else can read, where none
//                            is configured and none is needed; a rank reads on only if it finds its own
//                            record inside, to the byte
//   <session>/read/N/<rank>  the rank has seen the N-th welcome
//   <session>/go             rank 0: every rank has read the N-th welcome. Words that an earlier run left
//                            behind are confirmed by nobody, so they mislead nobody
//   <session>/report/<rank>  outcome of connecting, and what was left out; rank 0 alone reads it
//   <session>/outcome        rank 0: the first error of any rank, or what all of them left out
//   <session>/done/<rank>    the rank needs the store no more
//
// Rank 0 reads what each of the others says. Another rank makes the same number of exchanges however many
// ranks there are, except for the parts of the welcome: one for thousands of ranks.
//
// With a configured secret all but world, which has its mark, carry a proof (records.h) that a rank of
// the job wrote them at this key; what has none counts as absent. The secret of the connections is made
// from the job's and the welcome: ranks that were told different addresses cannot connect, and nothing
// that was said in another run opens one of this.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/config.h"
#include "base/status.h"
#include "context/welcome.h"
#include "context/world_words.h"
#include "rendezvous/store.h"
#include "rendezvous/waiting.h"
#include "transport/transport.h"
#include "wire/handshake.h"
#include "wire/key_pair.h"

namespace nezha::context {

struct BootstrapRequest {
  int rank = 0;
  int world_size = 1;
  std::string job;                            // its name
  std::optional<wire::Secret> secret;         // the configured one
  std::vector<transport::RailAddress> rails;  // listening already
  std::vector<std::string> left_out;          // devices that did not become rails, with reasons
  // Names of what these files hold: equal everywhere.
  std::string calibration = "none";
  std::string algorithm_file = "none";
  Nanoseconds deadline = kNever;
  const Clock* clock = &system_clock();       // of the deadline
  bool store_outlives_job = false;            // then keys of earlier runs may be in it
  bool store_is_private = false;              // nobody beyond this process reads it
};

struct Session {
  uint64_t job = 0;
  std::string id;                             // prefix of this run's keys
  wire::Secret secret{};                      // of this run's connections
  std::vector<transport::PeerAddress> ranks;
};

class Bootstrap {
 public:
  Bootstrap(rendezvous::Store& store, const Config& config, BootstrapRequest request);
  // A welcome that is still in the store is removed, whatever went wrong.
  ~Bootstrap();
  Bootstrap(const Bootstrap&) = delete;
  Bootstrap& operator=(const Bootstrap&) = delete;

  // Meets the others. Errors: `timed_out` naming the ranks that are absent, `invalid_argument` for a
  // rank, world size or secret that does not fit, `mismatch` for another version and for a configuration
  // that must be equal; for ranks on several hosts without a configured secret, unless
  // `authentication=off`: rank 0 then hands none out.
  Result<Session> meet();

  // Tells rank 0 how connecting went, and hears from it how it went for all: the first error of any rank
  // is everybody's. On success the rails that the ranks left out, at most kLeftOutMax sentences.
  static constexpr size_t kLeftOutMax = 256;
  using LeftOut = std::vector<std::string>;
  Result<LeftOut> report(const Session& session, const Status& outcome,
                         const std::vector<std::string>& left_out);
  // The last act: rank 0 waits at most `patience` ns until the others no longer need the store, and from
  // one that outlives the job every rank removes what it wrote. Errors are ignored.
  void clean_up(const Session& session, Nanoseconds patience);

 private:
  // How long one look at the store may take before the whole picture is looked at again.
  static constexpr Nanoseconds kLook = 200 * kMillisecond;
  static constexpr Nanoseconds kGlance = 10 * kMillisecond;
  static constexpr const char* kSign = "1";  // of which the key says everything

  std::string join_key(int rank) const;
  static std::string read_key(const std::string& session, uint64_t sequence, int rank);
  std::string agreed_text() const;
  std::string describe_self() const;
  // As in the store, and back: with proof where there is a configured secret.
  WipedText sealed(const std::string& key, std::string_view record) const;
  bool opened(const std::string& key, const WipedText& bytes, WipedText* record);
  Result<WipedText> look_at(const std::string& key, Nanoseconds until);
  Result<WipedText> await(const std::string& key, Nanoseconds until, const std::string& what);
  void log_wait(const std::string& what);
  Status say(const std::string& key, std::string_view words);
  std::string about_strangers() const;
  Status announce();
  Status publish(const WelcomeRecord& head, const std::vector<std::string>& parts);
  void remove_welcome();
  Result<Welcome> gather();
  std::vector<WelcomePart::Entry> hand_over(const std::vector<std::string>& joined) const;
  std::vector<int> unconfirmed();
  Result<Welcome> await_welcome();
  Result<Welcome> read_welcome(const WipedText& head);
  Result<bool> confirm(const WelcomeRecord& record);
  Nanoseconds next_look() const;
  Nanoseconds look_at_one_of_many(bool waits) const;
  // Rank 0: what the reports come to, one's own included.
  Result<LeftOut> hear_reports(const Session& session);
  Result<LeftOut> hear_outcome(const Session& session);
  Result<Session> parse_welcome(const Welcome& welcome) const;
  Result<wire::Secret> secret_of_job(const Welcome& welcome, const JoinRecord& rank0) const;
  // Whether these ranks, by their hosts, need a configured secret, and there is none: the first rank on
  // another host than rank 0, else 0.
  int lacks_secret(const std::vector<JoinRecord>& ranks) const;
  Status without_secret(const std::vector<JoinRecord>& ranks, int other) const;
  Status open_world();
  Result<WipedText> await_world();
  WorldMember member() const {
    return {request_.rank, request_.world_size, has_secret_ ? &secret_ : nullptr};
  }
  Status check_world(std::string_view world) const {
    return context::check_world(world, member(), store_.describe());
  }
  Status unreadable(int rank) const;
  Status silent(int rank, const Status& why) const;
  Status ended(const Status& why) const;
  Status taken() const;
  Status overwritten() const;
  bool names_me(const Welcome& welcome) const;
  Status beat();
  Status look_for(int rank, bool first, std::string* joined);
  Status check_company(std::string* world);

  rendezvous::Store& store_;
  const Config& config_;
  const BootstrapRequest request_;
  const Clock& clock_;
  rendezvous::WaitLines lines_;
  const bool has_secret_;    // a configured one
  wire::Secret secret_{};    // that, or on rank 0 one for the job
  std::optional<wire::KeyPair> keys_;  // where none is configured: with which rank 0 hands one over
  std::string nonce_;
  std::string self_;  // what this rank said of itself
  uint64_t beats_ = 0;
  uint64_t sequence_ = 0;  // of the welcome
  std::set<std::string> part_keys_;  // of all welcomes
  bool welcome_stays_ = false;    // it is in the store, for all that this rank knows
  std::string without_proof_;     // the last key at which somebody else wrote
};

}  // namespace nezha::context
