// AvoidingPolicy: another policy, with some rails left out for operations whose other half uses their
// network device already.
//
// Contract: as Policy. `avoid` holds for the calls of `shares` that follow.
#pragma once

#include "control/policy.h"

namespace nezha::control {

class AvoidingPolicy final : public Policy {
 public:
  explicit AvoidingPolicy(std::unique_ptr<Policy> inner) : inner_(std::move(inner)) {}

  // Rails as bits. As long as no other rail is up, they are used all the same.
  void avoid(uint32_t rails) { avoided_ = rails; }

  std::string_view name() const override { return inner_->name(); }
  Shares shares(const OpClass& op, std::span<const RailSnapshot> rails) override;
  void learn(const OpSample& sample) override { inner_->learn(sample); }
  std::string save() const override { return inner_->save(); }
  Status load(std::string_view json) override { return inner_->load(json); }
  std::string why(const OpClass& op, std::span<const RailSnapshot> rails) override {
    return inner_->why(op, rails);
  }

 private:
  const std::unique_ptr<Policy> inner_;
  uint32_t avoided_ = 0;
};

}  // namespace nezha::control
