// Stage and NodePart: how far a communicator is with its aggregation node (group.h), and how far the
// node's part of one of its operations is.
//
// Contract: constants; pure; any thread.
#pragma once

#include <cstdint>

#include "base/transitions.h"

namespace nezha::aggregation {

enum class Stage : uint8_t {
  apart,
  called,       // all ranks have a session: this rank is to register the communicator
  registering,  // it waits for the node's reply
  registered,   // nothing is left for this rank to do before all ranks are here
  joined,
  active,
  ending,       // active until the next turn, because another rank has lost the node
  exchanging,   // the node is lost: ranks tell what they have begun and hold
  leaving,      // there are operations to recover, or ranks that have not begun them
  over,         // the communicator has failed
};

inline constexpr Transitions<Stage> kStages = {
    {Stage::apart, {Stage::called, Stage::over}},
    {Stage::called, {Stage::registering, Stage::registered, Stage::apart, Stage::over}},
    {Stage::registering, {Stage::registered, Stage::apart, Stage::over}},
    {Stage::registered, {Stage::joined, Stage::apart, Stage::over}},
    {Stage::joined, {Stage::active, Stage::apart, Stage::over}},
    {Stage::active, {Stage::ending, Stage::exchanging, Stage::over}},
    {Stage::ending, {Stage::exchanging, Stage::over}},
    {Stage::exchanging, {Stage::leaving, Stage::over}},
    {Stage::leaving, {Stage::apart, Stage::over}},
};

enum class NodePart : uint8_t {
  none,        // the operation goes over the hosts only
  under_way,
  broken,      // the node was lost: the part waits to be recovered
  recovering,
  recovered,
  done,        // the node's result is here
};

inline constexpr Transitions<NodePart> kNodeParts = {
    {NodePart::none, {NodePart::under_way, NodePart::broken}},
    {NodePart::under_way, {NodePart::broken, NodePart::done}},
    {NodePart::broken, {NodePart::recovering}},
    {NodePart::recovering, {NodePart::recovered}},
};

}  // namespace nezha::aggregation
