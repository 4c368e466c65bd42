// The bootstrap server's brain: who serves which group, for how long, and is the group complete. Several
// groups (instances, models, tenants) live side by side. An ordinary copyable value: no clock, no lock; `now`
// is handed in. Readiness is counted by rank: a group is ready when each of its tp x pp x dp ranks is
// registered, however many requests that took. Thread rule: one owner at a time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvferry/error.h"
#include "kvferry/types.h"

namespace kvferry::core {

struct RegistryLimits {
  std::uint32_t groups = 1024;
  std::uint32_t ranks_per_group = 4096;  // tp x pp x dp
  std::uint32_t entries = 65536;  // registered ranks over all groups, about 0.5 KiB each: 32 MiB
  std::uint32_t group_bytes = 128;  // length of a group's name
  std::uint32_t name_bytes = 128;  // length of a process's name
  Duration lease_default = std::chrono::seconds(30);
  Duration lease_least = std::chrono::seconds(1);
  Duration lease_most = std::chrono::hours(1);
};

struct GroupShape {
  std::uint32_t tp = 1, pp = 1, dp = 1;
  std::uint64_t ranks() const;  // product; saturates far above every limit
  bool operator==(const GroupShape&) const = default;
};

struct Registration {
  std::string group;
  std::uint32_t rank = 0;
  std::string endpoint;  // "host:port" of the rank's control channel
  std::string name;  // for people; may be empty
  Incarnation incarnation;
  Role role = Role::kSender;
  GroupShape shape;
  Duration lease{0};  // 0: the default
  bool draining = false;  // this rank takes no new rooms
};

struct RegistryCounters {  // monotonic
  std::uint64_t created = 0, renewed = 0, replaced = 0, removed = 0, expired = 0, refused = 0;
};

class Registry {
 public:
  enum class Outcome : std::uint8_t {
    kCreated,  // the rank was free
    kRenewed,  // the same life again: the lease starts afresh
    kReplaced,  // a newer life took the rank over
  };
  struct Rank {
    std::uint32_t rank = 0;
    std::string endpoint, name;
    Incarnation incarnation;
    Duration lease{0}, left{0};  // left: until it expires unless renewed
    bool draining = false;
  };
  struct Group {
    std::string name;
    Role role = Role::kSender;
    GroupShape shape;
    std::vector<Rank> ranks;  // registered ones, ascending
    std::vector<std::uint32_t> missing;  // ascending
    bool ready = false;  // none is missing
    bool draining = false;  // at least one rank is
  };
  struct Summary {
    std::string name;
    Role role = Role::kSender;
    std::uint32_t registered = 0, required = 0;
    bool ready = false, draining = false;
  };

  explicit Registry(RegistryLimits = {});

  // Registers or renews; the same call twice changes nothing but the lease. Errors, each naming field, value,
  // limit and fix in the text: kUsage (a value), kSuperseded (a newer life holds the rank), kMismatch (role,
  // shape or endpoint disagree with what is registered), kExhausted (a table is full).
  Result<Outcome> put(const Registration&, TimePoint now);
  // True: it was there. A life older than the registered one is refused (kSuperseded). Unknown incarnation:
  // any.
  Result<bool> remove(std::string_view group, std::uint32_t rank, Incarnation, TimePoint now);
  void expire(TimePoint now);  // the other calls do it too
  std::optional<TimePoint> next_expiry() const;  // not later than the first lease that ends

  std::optional<Group> group(std::string_view name, TimePoint now);
  std::vector<Summary> groups(TimePoint now);  // by name
  const RegistryCounters& counters() const { return counters_; }
  std::size_t entries() const { return entries_; }
  std::size_t group_count() const { return groups_.size(); }
  const RegistryLimits& limits() const { return limits_; }

 private:
  struct Entry {
    std::string endpoint, name;
    Incarnation incarnation;
    Duration lease{0};
    TimePoint registered, expires;
    bool draining = false;
  };
  struct Members {
    Role role = Role::kSender;
    GroupShape shape;
    std::uint32_t draining = 0;
    std::map<std::uint32_t, Entry> ranks;
  };
  using Groups = std::map<std::string, Members, std::less<>>;

  tl::unexpected<Error> refuse(Error);
  Result<> check(const Registration&);
  Result<> check_group(const Registration&, const Members&);
  Result<Outcome> judge(const Registration&, const Members&, TimePoint now);
  bool free_endpoint(const Registration&, Members&);
  void drop(Members&, std::uint32_t rank);
  void store(const Registration&, Members&, Outcome, TimePoint now);

  RegistryLimits limits_;
  Groups groups_;
  std::size_t entries_ = 0;
  std::optional<TimePoint> next_expiry_;
  RegistryCounters counters_;
};

const char* name_of(Registry::Outcome) noexcept;  // "created", "renewed", "replaced"

// "1754000000000-00f3a9c1d2e4b567": start in milliseconds, then the random part in 16 hexadecimal digits.
std::string print_incarnation(Incarnation);
std::optional<Incarnation> parse_incarnation(std::string_view);

}  // namespace kvferry::core
