// SPDX-License-Identifier: Apache-2.0
//
// tc_filter.h: which cls_bpf filter is at this place?
// Asked by rtnetlink and not by libbpf, whose answer lacks the program's name: to ask for
// it by id takes CAP_SYS_ADMIN, which a dataplane does not have.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "args.h"

namespace waggle {

struct FilterPlace {
  int ifindex = 0;
  bool ingress = false;
  uint16_t priority = 0;
  uint32_t handle = 0;
};

struct Filter {
  uint32_t program_id = 0;
  // Without the "[id]" that libbpf appends.
  std::string program_name;
};

// Nothing when there is no such qdisc or no cls_bpf filter at the place; throws ENODEV
// when there is no such device.
std::optional<Filter> FindFilter(const Args& args, const FilterPlace& place);

}  // namespace waggle
