// FlowRooms with `operation`: ranks whose collectives run over fake links, without an Engine.
//
// Contract: as engine_rooms.h. Buffers of an operation outlive it, or its group fails first.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "engine/operation/operations.h"
#include "rails/policy.h"
#include "support/engine_rooms.h"

namespace nezha::testing {

struct OperationRooms : FlowRooms {
  OperationRooms(engine::EngineOptions given, const Clock& of_test)
      : FlowRooms(std::move(given), of_test) {
    place = [this](engine::Group& group, transport::Connection& from, const wire::FrameHeader& header) {
      return operations.place(group, from, header);
    };
    landed_early = [this](engine::Group& group, engine::EarlyFrame& frame) {
      operations.landed_early(group, frame);
    };
    landed_any = [this](engine::Group& group) { operations.progress(group); };
  }
  ~OperationRooms() override {
    for (const auto& group : groups) failures.fail(*group, error(Code::aborted, "the test ended"), false);
    settle_all();
    while (!groups.empty()) groups.remove(groups.newest());
    peers.clear();
  }

  // A group of all ranks with collectives; its messages are work that the test gives.
  engine::Group& add_collectives(uint64_t comm) {
    engine::Group& group = add_group(comm);
    rails::PolicyOptions policy;
    policy.weights = {1, 1};
    group.policy = std::move(*rails::make_policy("static", policy));
    group.costs.rails = options.rails;
    group.collectives = operations.make(group);
    return group;
  }
  Status all_reduce(engine::Group& group, std::vector<float>& data, engine::Work& work,
                    Nanoseconds deadline = kNever) {
    engine::OpRequest request;
    request.in = request.out = data.data();
    request.count = data.size();
    request.algorithm = Algorithm::ring;
    request.deadline = deadline;
    return operations.begin(group, request, work, clock.now());
  }

  engine::Operations operations{clock, groups, peers, flight, progress,
                                {options, pool, transfers, credit, early, failures, agenda}};
};

}  // namespace nezha::testing
