#include "transport/connect/refusal_log.h"

#include "base/log.h"

namespace nezha::transport {

void RefusalLog::record(const Handshake& handshake, Nanoseconds now) {
  if (handshake.state() == Handshake::State::refused) record(handshake, handshake.reason().c_str(), now);
}

void RefusalLog::record(const Handshake& handshake, const char* reason, Nanoseconds now) {
  last_reason_ = reason;
  if (now < quiet_until_) {
    ++untold_;
    return;
  }
  const std::string others = untold_ == 0 ? "" : " and " + std::to_string(untold_) + " others";
  NEZHA_LOG(warn, "tcp", "refused a connection on rail %d%s: %s (%s)", handshake.rail(), others.c_str(),
            reason, describe_connection(handshake.fd()).c_str());
  quiet_until_ = now + kPause;
  untold_ = 0;
}

}  // namespace nezha::transport
