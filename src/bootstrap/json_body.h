// The JSON body of a registration, read strictly: one error that names field, value, limit and fix. Pure;
// total on hostile bytes. Thread rule: none.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/registry.h"

namespace kvferry::bootstrap {

// What a 4xx answer says; every field may be empty but `message`.
struct Complaint {
  unsigned status = 400;   // HTTP status
  std::string
      code;  // "usage", "superseded", "mismatch", "exhausted", "not_found", "method", "too_large", ...
  std::string field, value, limit, fix;
  std::string message;  // all of it in one line
};

inline constexpr std::uint32_t kMaxJsonDepth = 8;

// Fills everything of `out` but group and rank. Unknown fields are refused, those that begin with "x_" are
// skipped. False: `why` is set.
bool read_registration(std::string_view body, core::Registration& out, Complaint& why);

// The body of a PUT; the twin of read_registration, for the client.
std::string write_registration(const core::Registration&);

std::string write_complaint(const Complaint&);

// An error of the registry as an answer: status 400, 409 or 503.
Complaint complaint_of(const Error&);

}  // namespace kvferry::bootstrap
