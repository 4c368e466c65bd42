// What a caller hands in, judged before anything moves: each refusal names the thing, the value, the limit
// and the fix. Pure; no thread rule.
#pragma once

#include <string>

#include "kvferry/manager.h"
#include "runtime/slot_table.h"

namespace kvferry::runtime {

std::string subject(const Slot&);  // "room 7001 (sender)"

Result<> check_options(const ManagerOptions&, const Parts&);
Result<> check_open(const OpenSpec&, const Limits&);
Result<> check_grant(const GrantSpec&, const Slot&, const Layout&, const Limits&);
Result<> check_push(const ChunkSpec&, const Slot&, const Layout&, const Limits&);

std::string cut_text(std::string text, std::size_t most);  // never splits a UTF-8 character

}  // namespace kvferry::runtime
