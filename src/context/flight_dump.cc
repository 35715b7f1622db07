#include "context/flight_dump.h"

#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <ctime>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "context/flight_signal.h"

namespace nezha::context {
namespace {

constexpr std::string_view kFileInFolder = "nezha_flight.%r.json";

int64_t unix_us() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return int64_t{now.tv_sec} * 1'000'000 + now.tv_nsec / 1000;
}

Result<std::string> write_dump(const std::string& setting, int rank, const std::string& json,
                               const std::string& path) {
  const std::string file = path.empty() ? flight_path(setting, rank) : path;
  if (path.empty() && !setting.empty() && !differs_by_rank(setting)) {
    mkdir(expand_path(setting, rank).c_str(), 0755);  // write_file says what is wrong
  }
  NEZHA_RETURN_IF_ERROR(write_file(file, json));
  return file;
}

}  // namespace

std::string flight_path(std::string_view setting, int rank) {
  if (differs_by_rank(setting)) return expand_path(setting, rank);
  const std::string folder = setting.empty() ? "." : expand_path(setting, rank);
  return folder + "/" + expand_path(kFileInFolder, rank);
}

FlightDump::FlightDump(progress::Loop& loop, engine::Engine& engine, const Config& config,
                       FlightOrigin origin)
    : loop_(loop), engine_(engine), setting_(config.flight_dump),
      signal_(flight_signal_number(config.flight_signal)), origin_(std::move(origin)) {
  if (setting_.empty()) return;
  engine_.on_group_failed([this]() NEZHA_REQUIRES_LOCK { write_unasked("error"); });
}

FlightDump::~FlightDump() {
  engine_.on_group_failed(nullptr);
  if (descriptor_ >= 0) loop_.remove(descriptor_, this);
}

Status FlightDump::watch_signal() {
  if (signal_ == 0) return Status::ok();
  auto descriptor = watch_flight_signal(signal_);
  if (!descriptor) return descriptor.status();
  NEZHA_RETURN_IF_ERROR(loop_.add(*descriptor, EPOLLIN | EPOLLET, this));
  descriptor_ = *descriptor;
  return Status::ok();
}

std::string FlightDump::json(std::string_view reason) const {
  const int64_t now_us = unix_us();
  char job[17];
  std::snprintf(job, sizeof(job), "%016" PRIx64, origin_.job);
  JsonWriter json;
  json.begin_object().field("nezha_flight", 1).field("job", std::string_view(job));
  json.field("rank", origin_.rank).field("world_size", origin_.world_size);
  json.field("host", host_name()).field("pid", getpid());
  json.field("reason", reason).field("written_us", now_us).key("rails").begin_array();
  for (const std::string& rail : origin_.rails) json.value(rail);
  json.end_array();
  engine_.write_flight(json, now_us - loop_.clock().now() / kMicrosecond);
  return json.end_object().take();
}

Result<std::string> FlightDump::write(const std::string& json, const std::string& path) const {
  return write_dump(setting_, origin_.rank, json, path);
}

void FlightDump::write_unasked(std::string_view reason) const {
  const int rank = origin_.rank;
  const bool taken = post_file_work([setting = setting_, rank, text = json(reason)] {
    auto file = write_dump(setting, rank, text, "");
    if (file) {
      NEZHA_LOG(info, "flight", "rank %d wrote its flight dump %s", rank, file->c_str());
    } else {
      NEZHA_LOG(warn, "flight", "rank %d has no flight dump: %s", rank, file.status().message().c_str());
    }
  });
  if (!taken) {
    NEZHA_LOG(warn, "flight", "rank %d has no flight dump: those before it are still being written; "
              "does the disk of flight_dump answer?", rank);
  }
}

void FlightDump::on_ready(uint32_t) { write_unasked("signal"); }

}  // namespace nezha::context
