// FabricSockets: the sockets that libfabric opens, which nobody tells us of, kept from living on in
// children of this process: a peer must see the connections of a killed process end (base/fork_guard.h);
// and from outliving their port.
//
// Contract: any thread. They are known by their addresses: an end that is a port of ours, or the port of
// a peer that was entered into a table. Before every fork they are looked for, and closed in the child; a
// child that executes another program gets none of those that are marked so.
#pragma once

#include <string_view>

namespace nezha::transport {

// The address of a port as the provider writes it; names that are no socket addresses are not noted. As
// many times as it is told.
void note_fabric_address(std::string_view name);
void forget_fabric_address(std::string_view name);

// Marks the sockets there are now.
void close_fabric_sockets_on_exec();

// Ends every connection of this process with that port, and its listening: the provider still has to be
// asked, to see it.
void hang_up_fabric_address(std::string_view name);

}  // namespace nezha::transport
