#include "engine/endpoint/message_gate.h"

#include "base/module.h"

namespace nezha::engine {

Result<std::unique_ptr<MessageGate>> make_message_gate(std::string_view policy,
                                                       const GateOptions& options,
                                                       const PeerLinksList& peers) {
  if (policy == "pull") return std::unique_ptr<MessageGate>();
  auto module = open_module("allocation", GateKind::kInterface);
  if (!module) return module.status();
  return static_cast<const GateKind*>(*module)->make(policy, options, peers);
}

}  // namespace nezha::engine
