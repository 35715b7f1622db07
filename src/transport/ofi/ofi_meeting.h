// OfiMeeting: how two ranks open a connection of an `ofi` rail: each rail has a door, a port whose
// address every rank knows; the lower rank makes a port of its own and knocks.
//
// Contract
//   Owner    OfiTransport while the job forms, OfiRejoin later; one thread, or the baton. Never blocks.
//            The rails outlive it.
//   Trust    the messages are those of wire/handshake.h, each way through the door; the addresses of the
//            two ports and both nonces are bound by a proof of the secret, and key the tokens of the
//            connection. Before its proof a stranger costs nothing that stays: the door's nonce is
//            computed of the hello, which comes again with the proof. Answers go to addresses of ranks
//            only, and a flood of hellos finds no more than OfiPost::kLettersMax of them waiting.
//   Order    hello (port), challenge, proof, welcome (port), four pings and pongs, done.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "transport/ofi/door_message.h"
#include "transport/ofi/fabric_port.h"
#include "transport/ofi/fabric_rail.h"
#include "transport/ofi/ofi_post.h"
#include "transport/transport.h"
#include "wire/handshake.h"

namespace nezha::transport {

// A connection that is open.
struct OfiJoined {
  Path path;
  uint32_t epoch = 0;
  bool dialled = false;
  std::unique_ptr<FabricPort> port;
  fi_addr_t to = FI_ADDR_UNSPEC;
  uint64_t token_out = 0;
  uint64_t token_in = 0;
  double latency_s = 0;
};
struct OfiRefused {
  Path path;
  bool is_probe = false;
  DialOutcome outcome = DialOutcome::unanswered;
  bool answered = false;  // a probe's success
  std::string reason;
};

class OfiMeeting {
 public:
  // `rails`: by index of this rank's; not null.
  OfiMeeting(const MeshRequest& request, std::vector<FabricRail*> rails);
  ~OfiMeeting();

  // Opens the doors; what to publish of each, by rail. Before anything else.
  static Result<std::unique_ptr<FabricPort>> open_door(FabricRail& rail);
  Status take_doors(std::vector<std::unique_ptr<FabricPort>> doors);

  void dial(const Path& path, uint32_t epoch, Nanoseconds now, Nanoseconds patience, bool probe);
  // Moves everything; true when there was anything to move.
  bool turn(Nanoseconds now);
  bool is_busy() const;
  Nanoseconds next_deadline() const;
  // Descriptors on which knocks can be waited for; `may_wait`: before every sleep, on all of them.
  // Empty when some door has none.
  std::vector<int> wait_fds() const;
  bool may_wait();
  // What strangers cost, for tests.
  size_t entries() const;

  std::deque<OfiJoined> joined;
  std::deque<OfiRefused> refused;

 private:
  static constexpr size_t kDoorReceives = 32;
  static constexpr int kPings = 4;
  static constexpr Nanoseconds kGuestTimeout = 3 * kSecond;
  // A door's nonce is good for two of these.
  static constexpr Nanoseconds kNonceTime = 4 * kSecond;

  struct Door {
    std::unique_ptr<OfiPost> post;   // goes after the port is closed
    std::unique_ptr<FabricPort> port;
  };
  struct Dial {
    Path path;
    uint32_t epoch = 0;
    bool probe = false;
    Nanoseconds deadline = kNever;
    std::unique_ptr<OfiPost> post;
    std::unique_ptr<FabricPort> port;
    OfiPost::Address* door = nullptr;
    wire::Hello hello;
    std::array<std::byte, wire::kHelloBytes> hello_bytes{};
    wire::Nonce acceptor_nonce{};
    DoorWord awaited = DoorWord::challenge;
    std::string peer_name;
    int pings = 0;
    Nanoseconds sent_at = 0;
    Nanoseconds best = kNever;
  };
  // Who has proved the secret.
  struct Guest {
    size_t rail = 0;
    wire::Hello hello;
    std::string name;
    wire::Nonce nonce{};   // ours
    OfiPost::Address* to = nullptr;
    std::unique_ptr<FabricPort> port;
    Nanoseconds deadline = kNever;
  };
  // A proof that was taken, until its nonce is no good any more: it may be heard and sent again.
  struct Spent {
    wire::Nonce nonce{};  // the dialler's
    Nanoseconds until = 0;
  };

  const PeerAddress& rank_of(int rank) const { return request_.ranks[static_cast<size_t>(rank)]; }
  std::string start(Dial& dial, Nanoseconds now);
  // False: over, one way or the other.
  bool advance(Dial& dial, Nanoseconds now);
  std::string answer(Dial& dial, const DoorMessage& message, Nanoseconds now);
  void send(Dial& dial, DoorWord word, const std::array<std::byte, 64>& block, uint64_t number,
            Nanoseconds now);
  void refuse(Dial& dial, DialOutcome outcome, std::string reason);
  void finish(Dial& dial);

  void at_door(size_t rail, const std::string& bytes, Nanoseconds now);
  // Of a hello, and again of the proof: false for strangers who cannot know better.
  bool check(size_t rail, const DoorMessage& message, wire::Hello* hello) const;
  wire::Nonce nonce_for(size_t rail, const DoorMessage& message, Nanoseconds now) const;
  void greet(size_t rail, const DoorMessage& message, Nanoseconds now);
  void admit(size_t rail, const DoorMessage& message, Nanoseconds now);
  void welcome(Guest& guest);
  void seat(Guest& guest, const DoorMessage& message);
  void leave(Guest& guest);
  void drop_expired(Nanoseconds now);
  std::string transcript(const wire::Hello& hello, const wire::Nonce& acceptor_nonce,
                         const std::string& dialler_name, const std::string& acceptor_name,
                         const char* purpose) const;
  void set_tokens(OfiJoined& joined, const std::string& keyed) const;

  const MeshRequest request_;
  const std::vector<uint16_t> rail_counts_;
  const std::vector<FabricRail*> rails_;
  std::vector<Door> doors_;
  std::list<Dial> dials_;
  std::list<Guest> guests_;
  std::deque<Spent> spent_;  // oldest first
  wire::Secret door_key_{};  // of this process alone
};

}  // namespace nezha::transport
