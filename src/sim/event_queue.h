// The world's future: a heap of small events in virtual time; equal times keep the order in which they were
// planned. Thread rule: one thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kvferry/types.h"

namespace kvferry::sim {

struct SimEvent {
  enum class Kind : std::uint8_t {
    kFrame,       // a: frame slot
    kLinkUp,      // a: link, b: side
    kLinkDown,    // a: link, b: side
    kDialFailed,  // a: node, b: endpoint
    kTick,        // a: node
    kMoverStep,   // a: operation slot, b: MoverStep, c: OpId to recognise it
    kInput,       // a: slot of a prepared input
    kUser,        // a: participant, b: UserStep
    kRequest,     // a: request
    kFault,       // a: fault kind, b: subject
    kRegistry,    // a: node, b: what it asks, c: its life
    kRegistryAsk,  // a: slot of a request on its way
  } kind = Kind::kTick;
  std::uint32_t a = 0, b = 0;
  std::uint64_t c = 0;
  TimePoint at;
  std::uint64_t order = 0;
};

class EventQueue {
 public:
  bool empty() const { return heap_.empty(); }
  std::size_t size() const { return heap_.size(); }
  const SimEvent& top() const { return heap_.front(); }
  void push(SimEvent e) {
    e.order = next_++;
    heap_.push_back(e);
    std::push_heap(heap_.begin(), heap_.end(), later);
  }
  SimEvent pop() {
    std::pop_heap(heap_.begin(), heap_.end(), later);
    const SimEvent e = heap_.back();
    heap_.pop_back();
    return e;
  }

 private:
  static bool later(const SimEvent& x, const SimEvent& y) {
    return x.at != y.at ? x.at > y.at : x.order > y.order;
  }
  std::vector<SimEvent> heap_;
  std::uint64_t next_ = 0;
};

}  // namespace kvferry::sim
