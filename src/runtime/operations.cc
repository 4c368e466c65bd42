#include "runtime/operations.h"

#include <algorithm>
#include <utility>

namespace kvferry::runtime {

void Operations::end(OpId op, Error error, std::vector<core::Input>& feed) {
  feed.emplace_back(core::in::Completed{op, std::move(error)});
  feed.emplace_back(core::in::Quiesced{op});
}

// False: blocked, keep it.
bool Operations::try_one(const core::out::Post& post, const Try& attempt, std::vector<core::Input>& feed) {
  Error why;
  switch (attempt(post, why)) {
    case Tried::kBlocked: return false;
    case Tried::kRefused: end(post.op, std::move(why), feed); return true;
    case Tried::kTaken: break;
  }
  taken_.insert_or_assign(post.op.value, State{post.mover, false});
  if (per_mover_.size() <= post.mover) per_mover_.resize(post.mover + std::size_t{1});
  ++per_mover_[post.mover];
  return true;
}

void Operations::post(core::out::Post post, const Try& attempt, std::vector<core::Input>& feed) {
  const Lane lane{post.peer.value, post.mover};
  if (!lanes_.contains(lane) && try_one(post, attempt, feed)) return;
  lanes_[lane].push_back(std::move(post));
  ++waiting_;
}

bool Operations::retry(const Try& attempt, std::vector<core::Input>& feed) {
  bool any = false;
  for (auto lane = lanes_.begin(); lane != lanes_.end();) {
    std::deque<core::out::Post>& queue = lane->second;
    while (!queue.empty() && try_one(queue.front(), attempt, feed)) {
      queue.pop_front();
      --waiting_;
      any = true;
    }
    lane = queue.empty() ? lanes_.erase(lane) : std::next(lane);
  }
  return any;
}

bool Operations::cancel_waiting(OpId op, std::vector<core::Input>& feed) {
  for (auto lane = lanes_.begin(); lane != lanes_.end(); ++lane) {
    std::deque<core::out::Post>& queue = lane->second;
    const auto found =
        std::find_if(queue.begin(), queue.end(), [&](const auto& post) { return post.op == op; });
    if (found == queue.end()) continue;
    queue.erase(found);
    --waiting_;
    if (queue.empty()) lanes_.erase(lane);
    end(op,
        Error{Code::kAborted, Who::kLocal, Next::kNewRoom, 0, "operation",
              "cancelled before the mover took it"},
        feed);
    return true;
  }
  return false;
}

void Operations::drop_waiting(PeerId peer, std::uint32_t mover, const Error& why,
                              std::vector<core::Input>& feed) {
  const auto lane = lanes_.find(Lane{peer.value, mover});
  if (lane == lanes_.end()) return;
  for (const core::out::Post& post : lane->second) end(post.op, why, feed);
  waiting_ -= lane->second.size();
  lanes_.erase(lane);
}

void Operations::completed(OpId op, Error error, std::vector<core::Input>& feed) {
  const auto found = taken_.find(op.value);
  if (found == taken_.end() || found->second.completed) {
    ++repeated_;
    return;
  }
  found->second.completed = true;
  feed.emplace_back(core::in::Completed{op, std::move(error)});
}

void Operations::quiesced(OpId op, std::vector<core::Input>& feed) {
  const auto found = taken_.find(op.value);
  if (found == taken_.end()) {
    ++repeated_;
    return;
  }
  if (!found->second.completed) {
    // A mover that forgot the first half of its promise: quiet without a result is a failure, never a
    // success.
    feed.emplace_back(
        core::in::Completed{op, Error{Code::kTransport, Who::kTransport, Next::kNewRoom, 0, "operation",
                                      "the mover reported it quiet without a completion"}});
  }
  --per_mover_[found->second.mover];
  taken_.erase(found);
  feed.emplace_back(core::in::Quiesced{op});
}

std::size_t Operations::in_flight(std::uint32_t mover) const noexcept {
  return mover < per_mover_.size() ? per_mover_[mover] : 0;
}

}  // namespace kvferry::runtime
