// Units of questions and answers (nezha_query): microseconds, and 1e9 bits or bytes a second.
#pragma once

namespace nezha::queries {

inline constexpr double kMicro = 1e-6;
inline constexpr double kGiga = 1e9;

}  // namespace nezha::queries
