#include "aggregation/client/exchange.h"

#include <numeric>

namespace nezha::aggregation {

void Exchange::start(std::string mine, bool same_length) {
  mine_ = std::move(mine);
  status_ = Status::ok();
  lengths_.assign(static_cast<size_t>(group_.world_size()), mine_.size());
  same_length ? gather_texts() : gather_lengths();
}

void Exchange::post(engine::OpRequest& request) {
  request.collective = Collective::all_gather;
  request.is_part = true;  // of none: the library's own
  work_.renew();
  if (Status posted = calls_.submit(group_, request, work_); !posted) finish(posted);
}

void Exchange::gather_lengths() {
  round_ = Round::lengths;
  const auto rank = static_cast<size_t>(group_.rank);
  engine::OpRequest request;
  request.in = &lengths_[rank];
  request.out = lengths_.data();
  request.count = lengths_.size();
  request.dtype = Dtype::int64;
  post(request);
}

void Exchange::gather_texts() {
  round_ = Round::texts;
  begins_.resize(lengths_.size());
  std::exclusive_scan(lengths_.begin(), lengths_.end(), begins_.begin(), uint64_t{0});
  all_.assign(begins_.back() + lengths_.back(), '\0');
  engine::OpRequest request;
  request.in = mine_.data();
  request.out = all_.data();
  request.count = all_.size();
  request.dtype = Dtype::uint8;
  request.input_counts = request.output_counts = lengths_;
  post(request);
}

void Exchange::finish(const Status& status) {
  status_ = status;
  round_ = Round::none;
}

bool Exchange::poll() {
  constexpr uint64_t kTextsMax = uint64_t{1} << 30;
  if (round_ == Round::none) return true;
  if (!work_.is_done()) return false;
  if (!work_.status().is_ok()) {
    finish(work_.status());
  } else if (round_ == Round::texts) {
    finish(Status::ok());
  } else if (std::accumulate(lengths_.begin(), lengths_.end(), uint64_t{0}) > kTextsMax) {
    finish(error(Code::internal, "rank %d: the texts that the ranks exchange are longer than a gigabyte "
                 "in all", group_.rank));
  } else {
    gather_texts();
    return poll();
  }
  return true;
}

}  // namespace nezha::aggregation
