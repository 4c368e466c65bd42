#include "observe/flight_recorder.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace kvferry::observe {

FlightRecorder::FlightRecorder(std::size_t events) : ring_(std::max<std::size_t>(events, 1)) {}

std::vector<TraceEvent> FlightRecorder::events() const {
  std::vector<TraceEvent> out;
  out.reserve(size());
  for (std::uint64_t i = next_ - size(); i < next_; ++i)
    out.push_back(ring_[static_cast<std::size_t>(i % ring_.size())]);
  return out;
}

std::string FlightRecorder::json(std::string_view process, std::uint64_t pid) const {
  using Json = nlohmann::json;
  Json list = Json::array();
  list.push_back({{"name", "process_name"}, {"ph", "M"}, {"pid", pid}, {"args", {{"name", process}}}});
  for (const TraceEvent& e : events()) {
    const double us = std::chrono::duration<double, std::micro>(e.at.time_since_epoch()).count();
    list.push_back({{"name", e.what},
                    {"ph", "i"},
                    {"s", "t"},
                    {"ts", us},
                    {"pid", pid},
                    {"tid", e.room.value},
                    {"args", {{"room", e.room.value}, {"grant", e.grant}, {"a", e.a}, {"b", e.b}}}});
  }
  const Json out = {{"traceEvents", std::move(list)},
                    {"displayTimeUnit", "ms"},
                    {"otherData", {{"forgotten", forgotten()}}}};
  return out.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace kvferry::observe
