// ShmTest: two ranks of one host that have proved themselves and tested their connection find out whether
// they can talk through memory instead.
//
// Contract: see transport/connect/rail_test.h. Runs behind the test of the connection itself, on which it
// falls back: that it comes to nothing is no failure, unless shared memory is required. The dialer then
// says why; the side that cannot logs its reason.
//   Order    the acceptor listens on a Unix socket of a random name and says it (Offer). The dialer
//            makes the memory, connects there, sends the token and the memory, and says so (Answer). The
//            acceptor takes them and says so (Answer). The socket stays: bell, and sign of life.
//   Trust    name and token are covered by the job's secret and by both nonces of this connection.
//            Whoever else finds the Unix socket is not heard.
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
  void take(std::span<const std::byte> bytes, Nanoseconds now, Bytes& out) override;
  const char* late() const override;

  // When it is over: without a segment the connection itself is to be used.
  ShmChannel release_channel() { return std::move(channel_); }

 private:
  // Both of one length, so that nothing has to be said about that.
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
  // Without shared memory, and why. What is the peer's own reason its log says.
  void give_up(const std::string& why, Reason reason);

  const std::unique_ptr<RailTest> beneath_;
  const bool required_;
  // Proved's own may go before the test does.
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
