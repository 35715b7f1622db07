// OfiMeeting: how two ranks open a connection of an `ofi` rail: each rail has a door, a port whose
// address every rank knows; the lower rank makes a port of its own and knocks.
//
// Contract
//   Owner    OfiTransport while the job forms, OfiRejoin later; one thread, or the baton. Never blocks.
//            The rails outlive it.
//   Trust    the messages are those of wire/handshake.h, each way through the door; the addresses of the
//            two ports and both nonces are bound by a proof of the secret, and key the tokens of the
//            connection. Before its proof a stranger costs one entry (kStrangersMax, the oldest goes),
//            and no port.
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

  void dial(const Path& path, uint32_t epoch, Nanoseconds deadline, bool probe);
  // Moves everything; true when there was anything to move.
  bool turn(Nanoseconds now);
  bool is_busy() const { return !dials_.empty() || !guests_.empty(); }
  Nanoseconds next_deadline() const;

  std::deque<OfiJoined> joined;
  std::deque<OfiRefused> refused;

 private:
  static constexpr size_t kStrangersMax = 64;
  static constexpr size_t kDoorReceives = 32;
  static constexpr int kPings = 4;
  static constexpr Nanoseconds kGuestTimeout = 3 * kSecond;

  enum class Word : uint8_t { hello = 1, challenge, proof, welcome, ping, pong, done };
  struct Message {
    Word word = Word::hello;
    wire::Nonce nonce{};                 // the dialler's: names the attempt
    std::array<std::byte, 64> block{};   // of wire/handshake.h
    std::string name;                    // of a port; done: nothing
    uint64_t number = 0;                 // ping: which; done: latency in ns
  };
  static std::string encode(const Message& message);
  static bool decode(const std::string& bytes, Message* message);

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
    fi_addr_t door = FI_ADDR_UNSPEC;
    wire::Hello hello;
    wire::Nonce acceptor_nonce{};
    Word awaited = Word::challenge;
    std::string peer_name;
    int pings = 0;
    Nanoseconds sent_at = 0;
    Nanoseconds best = kNever;
  };
  struct Guest {
    size_t rail = 0;
    wire::Hello hello;
    std::string name;
    wire::Nonce nonce{};   // ours
    fi_addr_t to = FI_ADDR_UNSPEC;
    bool member = false;
    std::unique_ptr<FabricPort> port;
    Nanoseconds deadline = kNever;
  };

  const PeerAddress& rank_of(int rank) const { return request_.ranks[static_cast<size_t>(rank)]; }
  std::string start(Dial& dial);
  // False: over, one way or the other.
  bool advance(Dial& dial, Nanoseconds now);
  std::string answer(Dial& dial, const Message& message, Nanoseconds now);
  void send(Dial& dial, Word word, const std::array<std::byte, 64>& block, uint64_t number,
            Nanoseconds now);
  void refuse(Dial& dial, DialOutcome outcome, std::string reason);
  void finish(Dial& dial);

  void at_door(size_t rail, const std::string& bytes, Nanoseconds now);
  void greet(size_t rail, const Message& message, Nanoseconds now);
  void admit(Guest& guest, const Message& message);
  void seat(Guest& guest, const Message& message);
  void drop_expired(Nanoseconds now);
  std::string transcript(const wire::Hello& hello, const wire::Nonce& acceptor_nonce,
                         const std::string& dialler_name, const std::string& acceptor_name,
                         const char* purpose) const;
  void set_tokens(OfiJoined& joined, const std::string& keyed) const;

  const MeshRequest request_;
  const std::vector<FabricRail*> rails_;
  std::vector<Door> doors_;
  std::list<Dial> dials_;
  std::list<Guest> guests_;  // oldest first
};

}  // namespace nezha::transport
