// PortTest: two ranks who have proved themselves tell each other the names of a fresh port each, and send
// some short messages from one to the other: what passes is a connection of the rail.
//
// Contract: see transport/connect/rail_test.h. The rail outlives it. Until it is over it owns the port
// and posts on it; then nothing is posted there any more, and the port is the wire's.
//   Order    dialer's name, acceptor's name, kPings messages and as many answers through the ports.
//   Trust    names are covered by the job's secret (port_name.h), and so are the tokens that begin every
//            message from here on; a message without the token is not heard.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "transport/connect/rail_test.h"
#include "fabric/fabric_port.h"
#include "fabric/ofi_wire.h"

namespace nezha::transport {

class PortTest final : public RailTest {
 public:
  // Opens the port: `exhausted`.
  static Result<std::unique_ptr<RailTest>> open(FabricRail& rail, const Proved& proved);
  ~PortTest() override;

  void begin(Nanoseconds now, Bytes& out) override;
  size_t wanted() const override;
  void on_bytes(std::span<const std::byte> bytes, Nanoseconds now, Bytes& out) override;
  bool is_polled() const override;
  bool poll(Nanoseconds now) override;
  const char* late() const override;

  // When it is over and not polled any more.
  std::unique_ptr<FabricPort> release_port();
  fi_addr_t peer() const { return peer_; }
  const OfiTokens& tokens() const { return tokens_; }

 private:
  static constexpr int kPings = 4;
  static constexpr size_t kMessageBytes = 16;  // token, number

  PortTest(std::unique_ptr<FabricPort> port, const Proved& proved);
  Status prepare();
  wire::Mac mac_of(std::string_view purpose, bool with_acceptor) const;
  void say_name(Bytes& out);
  void set_tokens();
  // Posts what is to be posted; true when the provider took any.
  bool post(Nanoseconds now);
  void on_message(size_t bytes, Nanoseconds now);
  // False, and the test has failed, unless the answer is 0 or "again".
  bool is_posted(ssize_t answer, bool* due);

  // Before the port goes nothing of the buffers may.
  std::array<std::byte, 2 * kMessageBytes> buffers_{};  // received, sent
  std::unique_ptr<FabricPort> port_;
  fid_mr* region_ = nullptr;
  FabricOperation receive_;
  FabricOperation send_;
  // Proved's own may go before the test does.
  const wire::Secret secret_;
  const wire::Hello hello_;
  const wire::Nonce acceptor_nonce_;
  const bool dialer_;
  std::string peer_name_;
  fi_addr_t peer_ = FI_ADDR_UNSPEC;
  OfiTokens tokens_;
  bool receive_due_ = false;
  bool send_due_ = false;
  bool is_sending_ = false;
  int heard_ = 0;  // messages of the peer
  Nanoseconds sent_at_ = 0;
};

}  // namespace nezha::transport
