// What the bootstrap server's JSON answers say, read without trust. Pure. Thread rule: none.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bootstrap/client.h"

namespace kvferry::bootstrap {

struct PutAnswer {
  std::string outcome;  // "created", "renewed", "replaced"; empty: it was refused
  std::string code;     // of the refusal: "superseded", "mismatch", ...
  std::string message;
};
PutAnswer read_put_answer(unsigned status, std::string_view body);

struct GroupAnswer {
  bool ready = false;               // complete and not draining: `ranks` is the answer
  std::vector<ResolvedRank> ranks;  // in rank order
  std::string missing;              // why not, for people: "3 of 4 ranks are registered, missing 2"
};
GroupAnswer read_group_answer(unsigned status, std::string_view body);

// Bytes that may not stand in a path segment become %XX.
std::string percent_encoded(std::string_view);

}  // namespace kvferry::bootstrap
