#include "testkit/net.h"

#include <algorithm>
#include <cerrno>

#include "wire/codec.h"
#include "wire/message.h"

namespace kvferry::testkit {
namespace {

constexpr Duration kReorderBy =
    std::chrono::milliseconds(1);  // what is sent in the meantime overtakes the frame

std::pair<std::string, std::string> pair_of(const std::string& a, const std::string& b) {
  return a < b ? std::pair(a, b) : std::pair(b, a);
}

std::string manager_of(const std::string& endpoint) { return endpoint.substr(0, endpoint.rfind(':')); }

}  // namespace

void Net::attach(const std::string& manager, NetChannel* channel) {
  channels_[manager] = channel;
  mail_[manager].clear();
}

void Net::detach(const std::string& manager, NetChannel* channel) {
  const auto found = channels_.find(manager);
  if (found == channels_.end() || found->second != channel) return;
  channels_.erase(found);
  mail_.erase(manager);
  std::vector<NetEnd> others;
  for (const auto& [end, other] : links_) {
    if (end.manager == manager) others.push_back(other);
  }
  for (const NetEnd& other : others) {
    unlink(other, latest_);
    down(other, "connection reset by peer", ECONNRESET, latest_);
  }
}

LinkId Net::dial(const std::string& from, const std::string& endpoint, TimePoint now) {
  latest_ = std::max(latest_, now);
  const NetEnd near{from, LinkId{next_link_++}};
  const std::string target = manager_of(endpoint);
  if (!channels_.contains(target)) {
    down(near, "connection refused", ECONNREFUSED, now);
  } else if (is_cut(from, target)) {
    down(near, "network is unreachable", ENETUNREACH, now);
  } else {
    const NetEnd far{target, LinkId{next_link_++}};
    links_[near] = far;
    links_[far] = near;
    post(near, ChannelEvent{ChannelEvent::Kind::kUp, near.link, endpoint, {}, {}}, now);
    post(far, ChannelEvent{ChannelEvent::Kind::kUp, far.link, from + ":1", {}, {}}, now);
  }
  return near.link;
}

bool Net::send(const std::string& from, LinkId link, std::span<const std::byte> frame, TimePoint now) {
  latest_ = std::max(latest_, now);
  const auto found = links_.find(NetEnd{from, link});
  if (found == links_.end()) return false;
  const NetEnd to = found->second;
  ChannelEvent event{ChannelEvent::Kind::kFrame, to.link, {}, {}, {frame.begin(), frame.end()}};
  FrameRule* rule = rule_for(from, to.manager, frame);
  if (rule == nullptr) {
    post(to, std::move(event), now);
    return true;
  }
  switch (rule->act) {
    case FrameRule::Act::kDrop: ++counts_.dropped; return true;
    case FrameRule::Act::kDelay:
      ++counts_.delayed;
      post(to, std::move(event), now + rule->delay);
      return true;
    case FrameRule::Act::kDuplicate:
      ++counts_.duplicated;
      post(to, event, now);
      post(to, std::move(event), now + rule->delay);
      return true;
    case FrameRule::Act::kReorder:
      ++counts_.delayed;
      post(to, std::move(event), now + (rule->delay > Duration::zero() ? rule->delay : kReorderBy));
      return true;
    case FrameRule::Act::kTruncate:
      ++counts_.truncated;
      event.frame.resize(event.frame.size() / 2);
      post(to, std::move(event), now);
      return true;
  }
  return true;
}

void Net::close(const std::string& from, LinkId link, TimePoint now) {
  const auto found = links_.find(NetEnd{from, link});
  if (found == links_.end()) return;
  const NetEnd other = found->second;
  unlink(other, now);
  down(other, "closed by peer", 0, now);
}

void Net::cut(const std::string& a, const std::string& b) {
  if (!cuts_.insert(pair_of(a, b)).second) return;
  std::vector<NetEnd> ends;
  for (const auto& [end, other] : links_) {
    if ((end.manager == a && other.manager == b) || (end.manager == b && other.manager == a))
      ends.push_back(end);
  }
  for (const NetEnd& end : ends) unlink(end, std::nullopt);
  for (const NetEnd& end : ends) down(end, "connection timed out", ETIMEDOUT, latest_);
}

void Net::mend(const std::string& a, const std::string& b) { cuts_.erase(pair_of(a, b)); }

bool Net::is_cut(const std::string& a, const std::string& b) const { return cuts_.contains(pair_of(a, b)); }

void Net::take(const std::string& manager, TimePoint now, std::vector<ChannelEvent>& out, std::size_t most) {
  latest_ = std::max(latest_, now);
  auto& box = mail_[manager];
  for (std::size_t taken = 0; taken < most && !box.empty() && box.begin()->first.first <= now; ++taken) {
    out.push_back(std::move(box.begin()->second));
    box.erase(box.begin());
  }
}

std::optional<TimePoint> Net::next_delivery() const {
  std::optional<TimePoint> next;
  for (const auto& [manager, box] : mail_) {
    if (box.empty()) continue;
    const TimePoint due = box.begin()->first.first;
    next = next ? std::min(*next, due) : due;
  }
  return next;
}

std::size_t Net::add(FrameRule rule) {
  rules_.emplace(next_rule_, std::move(rule));
  return next_rule_++;
}

void Net::remove(std::size_t id) { rules_.erase(id); }

void Net::post(const NetEnd& to, ChannelEvent event, TimePoint at) {
  const auto box = mail_.find(to.manager);
  if (box != mail_.end()) box->second.emplace(Key{at, next_mail_++}, std::move(event));
}

void Net::down(const NetEnd& to, std::string why, std::int32_t status, TimePoint at) {
  Error error{Code::kPeerLost, Who::kPeer, Next::kRetry, status, "test network link", std::move(why)};
  post(to, ChannelEvent{ChannelEvent::Kind::kDown, to.link, {}, std::move(error), {}}, at);
}

void Net::unlink(const NetEnd& end, std::optional<TimePoint> arrived) {
  const auto found = links_.find(end);
  if (found == links_.end()) return;
  const NetEnd other = found->second;
  links_.erase(found);
  links_.erase(other);
  for (const NetEnd& side : {end, other}) {
    const auto box = mail_.find(side.manager);
    if (box == mail_.end()) continue;
    counts_.dropped += std::erase_if(box->second, [&](const auto& mail) {
      return mail.second.link == side.link && mail.second.kind == ChannelEvent::Kind::kFrame &&
             (side != end || !arrived || mail.first.first > *arrived);
    });
  }
}

FrameRule* Net::rule_for(const std::string& from, const std::string& to, std::span<const std::byte> frame) {
  if (rules_.empty()) return nullptr;
  const Result<wire::Message> message = wire::decode(frame);
  const std::string name = message ? wire::name_of(message->body) : "";
  for (auto& [id, rule] : rules_) {
    if (rule.times == 0) continue;
    if (rule.message != "*" && rule.message != name) continue;
    if ((!rule.from.empty() && rule.from != from) || (!rule.to.empty() && rule.to != to)) continue;
    if (rule.times != ~0U) --rule.times;
    return &rule;
  }
  return nullptr;
}

}  // namespace kvferry::testkit
