// One message of every kind with all fields set, and one push and one pull room as
// transcripts. They are version 1.0 of the wire: their bytes are kept in wire_1.0/ and may only ever be added
// to.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "wire/message.h"

namespace kvferry::golden {

struct Sample {
  std::string file;  // without ".hex"
  wire::Message message;
};
std::vector<Sample> samples();

struct Line {
  std::string from, to, about;
  wire::Message message;
};
struct Transcript {
  std::string file;  // without ".hex"
  std::string title;  // what happens
  std::vector<Line> lines;
};
std::vector<Transcript> transcripts();

}  // namespace kvferry::golden
