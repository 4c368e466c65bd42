// Copies of what post(), lend() and add_peer() are given for the duration of a call only. Values; no thread
// rule.
#pragma once

#include <cstdint>
#include <vector>

#include "kvferry/transport.h"
#include "transport/cursor.h"

namespace kvferry::threaded {

struct OwnedOperation {
  explicit OwnedOperation(const Operation& from) : head(from), groups(from.groups) {
    head.groups = groups.view();
  }
  OwnedOperation(const OwnedOperation&) = delete;
  OwnedOperation& operator=(const OwnedOperation&) = delete;

  Operation head;  // its groups are those below
  transport::OwnedGroups groups;
};

struct OwnedLoan {
  explicit OwnedLoan(const Loan& from) : head(from) {
    parts.reserve(from.groups.size());
    groups.reserve(from.groups.size());
    for (const LoanGroup& group : from.groups) {
      Part& part = parts.emplace_back();
      part.planes.assign(group.planes.begin(), group.planes.end());
      part.item_bytes.assign(group.item_bytes.begin(), group.item_bytes.end());
      part.runs.assign(group.runs.begin(), group.runs.end());
      groups.push_back({part.planes, part.item_bytes, part.runs});
    }
    head.groups = groups;
  }
  OwnedLoan(const OwnedLoan&) = delete;
  OwnedLoan& operator=(const OwnedLoan&) = delete;

  struct Part {
    std::vector<Plane> planes;
    std::vector<std::uint32_t> item_bytes;
    std::vector<PageRun> runs;
  };
  Loan head;  // its groups are those below
  std::vector<Part> parts;
  std::vector<LoanGroup> groups;
};

}  // namespace kvferry::threaded
