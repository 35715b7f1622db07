// The endpoint suite over libfabric: through the host's TCP, and through shared memory.
#include "transport/ofi/ofi_endpoint.h"

#include <array>

#include "conformance/endpoint_suite.h"
#include "transport/ofi/fabric_port.h"
#include "transport/ofi/fabric_rail.h"

namespace nezha::transport {
namespace {

using testing::Recorder;
using Rails = std::array<std::unique_ptr<FabricRail>, 2>;  // one a side, as in two processes

void make_pair(const std::string& provider, const std::string& address, bool checksum,
               progress::Loop& loop, Recorder& left, Recorder& right, EndpointPair* pair) {
  const auto rails_of_pair = std::make_shared<Rails>();
  Rails& rails = *rails_of_pair;
  std::array<std::unique_ptr<FabricPort>, 2> ports;
  for (size_t i = 0; i < 2; ++i) {
    auto rail = FabricRail::open(provider, "", address);
    ASSERT_TRUE(rail.is_ok()) << rail.status().to_string();
    rails[i] = std::move(*rail);
    auto port = FabricPort::open(*rails[i], OfiEndpoint::kCompletions);
    ASSERT_TRUE(port.is_ok()) << port.status().to_string();
    ports[i] = std::move(*port);
  }
  const std::array<std::string, 2> names = {ports[0]->name(), ports[1]->name()};
  const std::array<uint64_t, 2> tokens = {0x1234567890ABCDEF, 0xFEDCBA0987654321};
  for (size_t i = 0; i < 2; ++i) {
    const auto to = ports[i]->insert(names[1 - i]);
    ASSERT_TRUE(to.is_ok()) << to.status().to_string();
    auto made = std::make_unique<OfiEndpoint>(
        loop, i == 0 ? left : right, std::move(ports[i]), to.value(), "test",
        OfiEndpointOptions{tokens[i], tokens[1 - i], checksum});
    const Status started = made->start();
    ASSERT_TRUE(started.is_ok()) << started.to_string();
    made->peer = 1;
    (i == 0 ? pair->left : pair->right) = std::move(made);
  }
  pair->beneath = rails_of_pair;
}

PairMaker ofi(const std::string& name, const std::string& provider, const std::string& address,
              bool checksum) {
  return {name,
          [=]() -> std::string {
            auto rail = FabricRail::open(provider, "", address);
            return rail ? "" : rail.status().message();
          },
          [=](progress::Loop& loop, Recorder& left, Recorder& right, EndpointPair* pair) {
            make_pair(provider, address, checksum, loop, left, right, pair);
          }};
}

INSTANTIATE_TEST_SUITE_P(Ofi, EndpointSuite,
                         ::testing::Values(ofi("net", "net", "127.0.0.1", false),
                                           ofi("tcp_rxm", "tcp;ofi_rxm", "127.0.0.1", false),
                                           ofi("shm", "shm", "", false),
                                           ofi("checksum", "net", "127.0.0.1", true)),
                         name_of_maker);

}  // namespace
}  // namespace nezha::transport
