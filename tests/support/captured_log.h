// The log's lines while it lives, in a file of this process.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/log.h"

namespace nezha::testing {

class CapturedLog {
 public:
  CapturedLog() : path_(::testing::TempDir() + "nezha-log-test-" + std::to_string(getpid())) {
    std::filesystem::remove(path_);
    EXPECT_TRUE(log::set_file(path_).is_ok());
  }
  ~CapturedLog() {
    EXPECT_TRUE(log::set_file("").is_ok());
    std::filesystem::remove(path_);
  }
  CapturedLog(const CapturedLog&) = delete;
  CapturedLog& operator=(const CapturedLog&) = delete;

  const std::string& path() const { return path_; }
  // The lines that contain `text`.
  std::vector<std::string> lines(const std::string& text = "") const {
    EXPECT_TRUE(log::finish(60 * kSecond));
    std::ifstream file(path_);
    std::vector<std::string> found;
    for (std::string line; std::getline(file, line);) {
      if (line.find(text) != std::string::npos) found.push_back(line);
    }
    return found;
  }

 private:
  std::string path_;
};

}  // namespace nezha::testing
