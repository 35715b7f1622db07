// DataLengthTable: what the table policy has learned, by (collective, size class, group) and the
// set of rails that were up; and its JSON form.
//
// Contract: single-threaded. Bounded: when it is full the row unused for longest makes room. A size
// class holds the sizes from one power of two up to the next.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "paper/table_row.h"

namespace nezha::rails {

struct RowKey {
  Collective collective = Collective::all_reduce;
  uint32_t size_class = 0;  // floor(log2(bytes)); 0 for 0 and 1 byte
  uint64_t group = 0;
  uint32_t up_mask = 0;

  auto operator<=>(const RowKey&) const = default;
};

uint32_t size_class_of(uint64_t bytes);

class DataLengthTable {
 public:
  static constexpr size_t kRowsMax = 4096;

  TableRow* find(const RowKey& key);
  TableRow& put(const RowKey& key, const TableRow& row);

  std::string to_json() const;
  // All rows or none. `invalid_argument` names the row and what is wrong with it.
  Status from_json(std::string_view json);

 private:
  std::map<RowKey, TableRow> rows_;
  uint64_t uses_ = 0;
};

std::string_view name_of(TableRow::State state);

}  // namespace nezha::rails
