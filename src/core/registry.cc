#include "core/registry.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "base/endpoint.h"

namespace kvferry::core {
namespace {

using std::to_string;

std::string ms(Duration d) {
  return to_string(std::chrono::duration_cast<std::chrono::milliseconds>(d).count()) + " ms";
}

bool name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-' ||
         c == '_' || c == ':' || c == '@' || c == '~';
}

std::string cut(std::string_view text) {
  return text.size() <= 64 ? std::string(text) : std::string(text.substr(0, 64)) + "...";
}

std::string shape_text(const GroupShape& s) {
  return "tp " + to_string(s.tp) + " x pp " + to_string(s.pp) + " x dp " + to_string(s.dp);
}

std::string rank_text(const Registration& r) {
  return "group " + cut(r.group) + " rank " + to_string(r.rank);
}

Error usage(std::string what, std::string why) {
  return Error{Code::kUsage, Who::kPeer, Next::kAfterFix, 0, std::move(what), std::move(why)};
}

}  // namespace

std::uint64_t GroupShape::ranks() const {
  const std::uint64_t two = static_cast<std::uint64_t>(tp) * pp;
  if (dp != 0 && two > std::numeric_limits<std::uint64_t>::max() / dp)
    return std::numeric_limits<std::uint64_t>::max();
  return two * dp;
}

Registry::Registry(RegistryLimits limits) : limits_(limits) {}

tl::unexpected<Error> Registry::refuse(Error error) {
  ++counters_.refused;
  return tl::unexpected(std::move(error));
}

Result<> Registry::check(const Registration& r) {
  if (r.group.empty() || r.group.size() > limits_.group_bytes ||
      !std::all_of(r.group.begin(), r.group.end(), name_char))
    return refuse(usage("group \"" + cut(r.group) + "\"",
                        "has " + to_string(r.group.size()) + " characters; give 1 to " +
                            to_string(limits_.group_bytes) + " of letters, digits and . - _ : @ ~"));
  if (r.name.size() > limits_.name_bytes)
    return refuse(
        usage("name \"" + cut(r.name) + "\"",
              "has " + to_string(r.name.size()) + " bytes, the limit is " + to_string(limits_.name_bytes)));
  const std::uint64_t ranks = r.shape.ranks();
  if (ranks == 0 || ranks > limits_.ranks_per_group)
    return refuse(usage("shape " + shape_text(r.shape), "makes " + to_string(ranks) + " ranks; give 1 to " +
                                                            to_string(limits_.ranks_per_group)));
  if (r.rank >= ranks)
    return refuse(usage("rank " + to_string(r.rank),
                        "must be below " + to_string(ranks) + " = " + shape_text(r.shape)));
  if (const auto parsed = parse_host_port(r.endpoint); !parsed)
    return refuse(parsed.error());
  else if (parsed->port == 0 || is_any_host(parsed->host))
    return refuse(
        usage("endpoint \"" + cut(r.endpoint) + "\"", "cannot be dialled; give one host and its real port"));
  if (!r.incarnation.known())
    return refuse(usage("incarnation 0-0", "means unknown; give the start time in ms and 64 random bits"));
  if (r.lease != Duration{0} && (r.lease < limits_.lease_least || r.lease > limits_.lease_most))
    return refuse(usage("lease_ms " + ms(r.lease),
                        "must be " + ms(limits_.lease_least) + " to " + ms(limits_.lease_most)));
  return {};
}

// All members of a group tell the same role and shape. A group of one that starts a new life may tell new
// ones.
Result<> Registry::check_group(const Registration& r, const Members& m) {
  if (m.role == r.role && m.shape == r.shape) return {};
  const bool alone = m.ranks.size() == 1 && m.ranks.begin()->first == r.rank;
  if (alone && m.ranks.begin()->second.incarnation < r.incarnation) return {};
  const std::string ours = std::string(name_of(m.role)) + ", " + shape_text(m.shape);
  const std::string theirs = std::string(name_of(r.role)) + ", " + shape_text(r.shape);
  return refuse(Error{Code::kMismatch, Who::kPeer, Next::kAfterFix, 0, rank_text(r),
                      "says " + theirs + ", but the group is registered as " + ours + " by " +
                          to_string(m.ranks.size()) +
                          " ranks; give all ranks the same sizes, or wait for the old leases to end"});
}

Result<Registry::Outcome> Registry::judge(const Registration& r, const Members& m, TimePoint now) {
  const auto at = m.ranks.find(r.rank);
  if (at == m.ranks.end()) return Outcome::kCreated;
  const Entry& old = at->second;
  if (r.incarnation < old.incarnation)
    return refuse(Error{Code::kSuperseded, Who::kPeer, Next::kNever, 0, rank_text(r),
                        "incarnation " + print_incarnation(r.incarnation) + " is older than " +
                            print_incarnation(old.incarnation) + " at " + old.endpoint + ", registered " +
                            ms(now - old.registered) +
                            " ago: a newer process has taken this rank; stop this one"});
  if (old.incarnation < r.incarnation) return Outcome::kReplaced;
  if (old.endpoint == r.endpoint) return Outcome::kRenewed;
  return refuse(Error{Code::kMismatch, Who::kPeer, Next::kAfterFix, 0, rank_text(r),
                      "endpoint " + r.endpoint + " differs from " + old.endpoint +
                          " that the same incarnation registered; one life has one endpoint"});
}

// An endpoint belongs to one process: a newer life at the address of another rank proves that one gone.
bool Registry::free_endpoint(const Registration& r, Members& m) {
  for (auto& [rank, entry] : m.ranks) {
    if (rank == r.rank || entry.endpoint != r.endpoint) continue;
    if (!(entry.incarnation < r.incarnation)) {
      ++counters_.refused;
      return false;
    }
    ++counters_.replaced;
    drop(m, rank);
    return true;
  }
  return true;
}

void Registry::drop(Members& m, std::uint32_t rank) {
  const auto at = m.ranks.find(rank);
  if (at->second.draining) --m.draining;
  m.ranks.erase(at);
  --entries_;
}

Result<Registry::Outcome> Registry::put(const Registration& r, TimePoint now) {
  expire(now);
  if (auto ok = check(r); !ok) return tl::unexpected(ok.error());
  auto at = groups_.find(r.group);
  Outcome outcome = Outcome::kCreated;
  if (at != groups_.end()) {
    if (auto ok = check_group(r, at->second); !ok) return tl::unexpected(ok.error());
    auto judged = judge(r, at->second, now);
    if (!judged) return judged;
    outcome = *judged;
    if (outcome != Outcome::kRenewed && !free_endpoint(r, at->second))
      return fail(Code::kRefused, Who::kPeer, Next::kAfterFix, rank_text(r),
                  "endpoint " + r.endpoint +
                      " is registered for another rank of this group by a process that is not "
                      "older; give each rank its own port");
  }
  const auto full = [&](const char* limit, std::size_t value) {
    return refuse(Error{Code::kExhausted, Who::kPeer, Next::kRetry, 0, rank_text(r),
                        std::string("the limit ") + limit + " of " + to_string(value) +
                            " is reached; wait for leases to end, or use a second bootstrap server"});
  };
  if (at == groups_.end() && groups_.size() >= limits_.groups) return full("groups", limits_.groups);
  if (outcome == Outcome::kCreated && entries_ >= limits_.entries) return full("entries", limits_.entries);
  if (at == groups_.end()) at = groups_.emplace(r.group, Members{}).first;
  store(r, at->second, outcome, now);
  return outcome;
}

void Registry::store(const Registration& r, Members& m, Outcome outcome, TimePoint now) {
  if (outcome == Outcome::kCreated) ++entries_;
  m.role = r.role;
  m.shape = r.shape;
  Entry& entry = m.ranks[r.rank];
  if (entry.draining) --m.draining;
  if (outcome != Outcome::kRenewed) entry.registered = now;
  entry.endpoint = r.endpoint;
  entry.name = r.name;
  entry.incarnation = r.incarnation;
  entry.lease = r.lease == Duration{0} ? limits_.lease_default : r.lease;
  entry.expires = now + entry.lease;
  entry.draining = r.draining;
  if (entry.draining) ++m.draining;
  next_expiry_ = next_expiry_ ? std::min(*next_expiry_, entry.expires) : entry.expires;
  if (outcome == Outcome::kCreated) ++counters_.created;
  if (outcome == Outcome::kRenewed) ++counters_.renewed;
  if (outcome == Outcome::kReplaced) ++counters_.replaced;
}

Result<bool> Registry::remove(std::string_view group, std::uint32_t rank, Incarnation who, TimePoint now) {
  expire(now);
  const auto at = groups_.find(group);
  if (at == groups_.end()) return false;
  const auto entry = at->second.ranks.find(rank);
  if (entry == at->second.ranks.end()) return false;
  if (who.known() && who < entry->second.incarnation)
    return refuse(Error{Code::kSuperseded, Who::kPeer, Next::kNever, 0,
                        "group " + cut(group) + " rank " + to_string(rank),
                        "incarnation " + print_incarnation(who) + " is older than the registered " +
                            print_incarnation(entry->second.incarnation) + ", which stays"});
  drop(at->second, rank);
  ++counters_.removed;
  if (at->second.ranks.empty()) groups_.erase(at);
  return true;
}

// Walks the table only when the earliest lease may have ended: renewals leave next_expiry_ behind, never
// ahead.
void Registry::expire(TimePoint now) {
  if (!next_expiry_ || now < *next_expiry_) return;
  next_expiry_.reset();
  for (auto group = groups_.begin(); group != groups_.end();) {
    Members& m = group->second;
    for (auto at = m.ranks.begin(); at != m.ranks.end();) {
      const auto next = std::next(at);
      if (at->second.expires <= now) {
        ++counters_.expired;
        drop(m, at->first);
      } else {
        next_expiry_ = next_expiry_ ? std::min(*next_expiry_, at->second.expires) : at->second.expires;
      }
      at = next;
    }
    group = m.ranks.empty() ? groups_.erase(group) : std::next(group);
  }
}

std::optional<TimePoint> Registry::next_expiry() const { return next_expiry_; }

std::optional<Registry::Group> Registry::group(std::string_view name, TimePoint now) {
  expire(now);
  const auto at = groups_.find(name);
  if (at == groups_.end()) return std::nullopt;
  const Members& m = at->second;
  Group out{at->first, m.role, m.shape, {}, {}, false, m.draining > 0};
  out.ranks.reserve(m.ranks.size());
  auto present = m.ranks.begin();
  for (std::uint32_t rank = 0; rank < m.shape.ranks(); ++rank) {
    if (present == m.ranks.end() || present->first != rank) {
      out.missing.push_back(rank);
      continue;
    }
    const Entry& e = present->second;
    out.ranks.push_back({rank, e.endpoint, e.name, e.incarnation, e.lease, e.expires - now, e.draining});
    ++present;
  }
  out.ready = out.missing.empty();
  return out;
}

std::vector<Registry::Summary> Registry::groups(TimePoint now) {
  expire(now);
  std::vector<Summary> out;
  out.reserve(groups_.size());
  for (const auto& [name, m] : groups_) {
    const auto required = static_cast<std::uint32_t>(m.shape.ranks());
    const auto registered = static_cast<std::uint32_t>(m.ranks.size());
    out.push_back({name, m.role, registered, required, registered == required, m.draining > 0});
  }
  return out;
}

const char* name_of(Registry::Outcome outcome) noexcept {
  switch (outcome) {
    case Registry::Outcome::kCreated: return "created";
    case Registry::Outcome::kRenewed: return "renewed";
    case Registry::Outcome::kReplaced: return "replaced";
  }
  return "?";
}

std::string print_incarnation(Incarnation i) {
  char hex[17] = "";
  const auto end = std::to_chars(hex, hex + 16, i.random, 16);
  const auto digits = static_cast<std::size_t>(end.ptr - hex);
  return to_string(i.started_ms) + "-" + std::string(16 - digits, '0') + std::string(hex, digits);
}

std::optional<Incarnation> parse_incarnation(std::string_view text) {
  const auto dash = text.find('-');
  if (dash == std::string_view::npos || dash == 0 || text.size() - dash - 1 > 16) return std::nullopt;
  Incarnation out;
  const char* end = text.data() + text.size();
  const auto ms_part = std::from_chars(text.data(), text.data() + dash, out.started_ms);
  const auto random_part = std::from_chars(text.data() + dash + 1, end, out.random, 16);
  if (ms_part.ec != std::errc{} || ms_part.ptr != text.data() + dash) return std::nullopt;
  if (random_part.ec != std::errc{} || random_part.ptr != end) return std::nullopt;
  return out;
}

}  // namespace kvferry::core
