// Results for people (text) and for programs (one line of JSON). Pure.
#pragma once

#include <string>
#include <string_view>

#include "sim/campaign.h"
#include "sim/explorer.h"

namespace kvferry::simcli {

std::string text_of(const sim::CampaignResult&);
std::string text_of(const sim::Violation&);
std::string json_of(const sim::CampaignResult&);
std::string text_of(const sim::ExploreResult&);
std::string json_of(const std::vector<sim::ExploreResult>&);
std::string list_of_shapes();    // of the explorer: name, budget, what it is
std::string list_of_mutants();   // name, rule that it removes; one a line

}  // namespace kvferry::simcli
