#include "protection/protection_module.h"

#include "protection/authenticated_stream.h"
#include "protection/tls_stream.h"
#include "transport/connect/stream_protection.h"

namespace nezha::transport {
namespace {

class Protection final : public StreamProtection {
 public:
  std::shared_ptr<const StreamKey> make_key(const Secret& secret) const override {
    return TlsKey::create(secret);
  }
  Result<std::unique_ptr<TcpStream>> authenticate(Descriptor& fd, const Secret& keys,
                                                  bool dialer) const override {
    return open_authenticated(fd, keys, dialer);
  }
};

}  // namespace

const Module& protection_module() {
  static const Protection protection;
  static const Module module{StreamProtection::kInterface,
                             static_cast<const StreamProtection*>(&protection), log::set_level};
  return module;
}

}  // namespace nezha::transport
