// Where time enters. Only shells own a Clock; the core is handed TimePoints.
#pragma once

#include "kvferry/export.h"
#include "kvferry/types.h"

namespace kvferry {

class KVFERRY_API Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint now() noexcept = 0;           // any thread
};

class KVFERRY_API SystemClock final : public Clock {          // CLOCK_MONOTONIC
 public:
  TimePoint now() noexcept override;
};

}  // namespace kvferry
