// FabricSockets: the sockets that libfabric opens without telling us. They are kept from staying
// open in children of this process, because a peer must see the connections of a killed process end
// (base/fork_guard.h), and from outliving their port.
//
// Contract: any thread. These sockets are known by their addresses: one end is a port of this
// process, or the port of a peer that was entered into an address table. Before every fork they are
// searched for, and they are closed in the child; a child that executes another program gets none
// of those that `close_fabric_sockets_on_exec` has marked.
#pragma once

#include <string_view>

namespace nezha::transport {

// `name`: the address of a port as the provider writes it; a name that is not a socket address is
// not noted. An address that was noted several times has to be forgotten as many times.
void note_fabric_address(std::string_view name);
void forget_fabric_address(std::string_view name);

// Marks the sockets that are open now.
void close_fabric_sockets_on_exec();

// Ends every connection of this process with that port, and its listening. The provider notices
// when its queue is read the next time.
void hang_up_fabric_address(std::string_view name);

}  // namespace nezha::transport
