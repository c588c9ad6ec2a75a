// SPDX-License-Identifier: Apache-2.0
//
// netlink.h: what is in an rtnetlink message?
#pragma once

#include <linux/netlink.h>
#include <linux/rtnetlink.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

namespace waggle {

// The attributes behind the header of a family's message, from `first` on.
struct Attributes {
  const rtattr* first = nullptr;
  int length = 0;

  template <class Header>
  static Attributes Behind(const nlmsghdr* message) {
    if (message->nlmsg_len < NLMSG_LENGTH(sizeof(Header))) return {};
    auto* header = static_cast<const char*>(NLMSG_DATA(message));
    return {reinterpret_cast<const rtattr*>(header + NLMSG_ALIGN(sizeof(Header))),
            static_cast<int>(NLMSG_PAYLOAD(message, sizeof(Header)))};
  }

  const rtattr* Find(uint16_t type) const {
    int left = length;
    for (const rtattr* each = first; RTA_OK(each, left); each = RTA_NEXT(each, left))
      if ((each->rta_type & NLA_TYPE_MASK) == type) return each;
    return nullptr;
  }

  // Those in an attribute that is made of attributes.
  Attributes Within(uint16_t type) const {
    const rtattr* outer = Find(type);
    if (!outer) return {};
    return {static_cast<const rtattr*>(RTA_DATA(outer)), static_cast<int>(RTA_PAYLOAD(outer))};
  }

  std::optional<uint32_t> Number(uint16_t type) const {
    const rtattr* found = Find(type);
    uint32_t number = 0;
    if (!found || RTA_PAYLOAD(found) < sizeof(number)) return std::nullopt;
    memcpy(&number, RTA_DATA(found), sizeof(number));
    return number;
  }

  std::string Text(uint16_t type) const {
    const rtattr* found = Find(type);
    if (!found) return "";
    auto* text = static_cast<const char*>(RTA_DATA(found));
    return std::string(text, strnlen(text, RTA_PAYLOAD(found)));
  }
};

}  // namespace waggle
