// ShmTest: two ranks of one host that have proved themselves and tested their connection find out whether
// they can talk through memory instead.
//
// Contract: see transport/connect/rail_test.h. Runs after the test of the connection itself. Where
// memory cannot be shared, the connection itself is used; the test fails only if shared memory is
// required. The dialer then says why; the side that cannot logs its reason.
//   Order    the acceptor listens on a Unix socket of a random name and says it (Offer). The dialer
//            makes the memory, connects there, sends the token and the memory, and says so
//            (Answer). The acceptor takes them and says so (Answer). The socket stays open: each
//            side wakes the other through it, and its end shows that the peer has ended.
//   Trust    name and token are covered by the job's secret and by both nonces of this connection.
//            Nobody else who finds the Unix socket is heard.
#pragma once

#include <memory>
#include <string>

#include "transport/connect/rail_test.h"
#include "transport/shm/shm_socket.h"
#include "transport/shm/shm_wire.h"

namespace nezha::transport {

class ShmTest final : public RailTest {
 public:
  ShmTest(const Proved& proved, std::unique_ptr<RailTest> beneath, bool required);

  void begin(Nanoseconds now, Bytes& out) override;
  size_t wanted() const override;
  bool takes_parts() const override { return !beneath_->is_over() && beneath_->takes_parts(); }
  void on_bytes(std::span<const std::byte> bytes, Nanoseconds now, Bytes& out) override;
  const char* late() const override;

  // Called when the test is over. Without a segment the connection itself is to be used.
  ShmChannel release_channel() { return std::move(channel_); }

 private:
  // Each kind of message has a fixed length, so that no length has to be sent.
  static constexpr size_t kOfferBytes = 64;  // magic, whether it can, name, MAC
  static constexpr size_t kAnswerBytes = 8;  // magic, whether it could

  wire::Mac mac_of(const char* purpose, const ShmName* name) const;
  void follow_beneath(Bytes& out);
  void offer(Bytes& out);
  Status listen();
  void on_offer(std::span<const std::byte> bytes, Bytes& out);
  Status make(const ShmName& name);
  void on_answer(std::span<const std::byte> bytes, Bytes& out);
  Status adopt();
  void answer(bool can, Bytes& out) const;
  enum class Reason : uint8_t { our_own, the_peers };
  // Ends the test without shared memory, because of `why`. The peer logs its own reasons itself.
  void give_up(const std::string& why, Reason reason);

  const std::unique_ptr<RailTest> beneath_;
  const bool required_;
  // Copies, because the originals in Proved may end before the test does.
  const wire::Secret secret_;
  const wire::Hello hello_;
  const wire::Nonce acceptor_nonce_;
  const bool dialer_;
  bool offered_ = false;  // dialer: it has answered; acceptor: it has offered
  ShmName name_{};        // acceptor
  Descriptor listener_;   // acceptor
  ShmChannel channel_;
};

}  // namespace nezha::transport
