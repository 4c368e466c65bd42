// The network of a FaultNet: who listens, which links exist, which frames are on their way, which rules bend
// them. Thread rule: everything in the test kit belongs to one thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kvferry/testkit.h"

namespace kvferry::testkit {

class NetChannel;

// One end of a link, as its owner knows it.
struct NetEnd {
  std::string manager;
  LinkId link;
  auto operator<=>(const NetEnd&) const = default;
};

struct NetCounts {
  std::uint64_t dropped = 0, delayed = 0, duplicated = 0, truncated = 0;
};

class Net {
 public:
  // A channel lives from attach to detach; detach cuts its links, the other ends see them go down.
  void attach(const std::string& manager, NetChannel*);
  void detach(const std::string& manager, NetChannel*);

  LinkId dial(const std::string& from, const std::string& endpoint, TimePoint now);
  bool send(const std::string& from, LinkId, std::span<const std::byte> frame, TimePoint now);
  void close(const std::string& from, LinkId, TimePoint now);
  void cut(const std::string& a, const std::string& b);
  void mend(const std::string& a, const std::string& b);
  void take(const std::string& manager, TimePoint now, std::vector<ChannelEvent>& out, std::size_t most);
  std::optional<TimePoint> next_delivery() const;

  std::size_t add(FrameRule rule);
  void remove(std::size_t id);
  const NetCounts& counts() const noexcept { return counts_; }

 private:
  using Key = std::pair<TimePoint, std::uint64_t>;  // when, then in order of sending

  bool is_cut(const std::string& a, const std::string& b) const;
  void post(const NetEnd& to, ChannelEvent event, TimePoint at);
  void down(const NetEnd& to, std::string why, std::int32_t status, TimePoint at);
  // Both directions. What `end` was sent until `arrived` is still read, as behind a closed socket; the rest
  // is lost.
  void unlink(const NetEnd& end, std::optional<TimePoint> arrived);
  FrameRule* rule_for(const std::string& from, const std::string& to, std::span<const std::byte> frame);

  std::map<std::string, NetChannel*> channels_;
  std::map<NetEnd, NetEnd> links_;  // both directions
  std::set<std::pair<std::string, std::string>> cuts_;
  std::map<std::string, std::map<Key, ChannelEvent>> mail_;  // by receiving manager
  std::map<std::size_t, FrameRule> rules_;
  std::size_t next_rule_ = 1;
  std::uint32_t next_link_ = 1;  // never used twice
  std::uint64_t next_mail_ = 0;
  TimePoint latest_;  // the newest time seen: cut() has no clock of its own
  NetCounts counts_;
};

}  // namespace kvferry::testkit
