// The values of a Party as JSON objects, for the stream between two processes. They throw on values of a
// wrong shape: callers catch. Thread rule: none.
#pragma once

#include <nlohmann/json.hpp>

#include "conformance/party.h"

namespace kvferry::conformance {

using Json = nlohmann::json;

Json to_json(const Error&);
Error error_from(const Json&);
Json to_json(const Capabilities&);
Capabilities capabilities_from(const Json&);
Json to_json(const OpSpec&);
OpSpec op_from(const Json&);
Json to_json(const LoanSpec&);
LoanSpec loan_from(const Json&);
Json to_json(const SeenEvent&);
SeenEvent seen_from(const Json&);
Json to_json(const CallCosts&);
CallCosts costs_from(const Json&);
Json to_json(const std::vector<std::byte>&);
std::vector<std::byte> bytes_from(const Json&);

// One message on a stream; false: the stream ended or (read, with a limit) nothing came for `ms`.
bool write_message(int stream, const Json&);
bool read_message(int stream, Json&, int ms);

}  // namespace kvferry::conformance
