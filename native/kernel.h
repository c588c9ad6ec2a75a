// SPDX-License-Identifier: Apache-2.0
//
// kernel.h: what the kernel says of a descriptor, and what older headers do not know yet.
#pragma once

#include <linux/bpf.h>

#include <cstdint>
#include <string>

#include "args.h"
#include "fd.h"

namespace waggle {

// Since Linux 6.6; the headers of Debian 12 are of 6.1.
constexpr uint32_t kAttachTcxIngress = 46;
constexpr uint32_t kAttachTcxEgress = 47;
constexpr uint32_t kAttachNetkitPrimary = 54;
constexpr uint32_t kAttachNetkitPeer = 55;
constexpr uint32_t kLinkTypeTcx = 11;
constexpr uint32_t kFlagBefore = 1u << 3;
constexpr uint32_t kFlagAfter = 1u << 4;

enum class FdKind { kMap, kProgram, kLink };

// Opens a pin of that kind. ENOENT when there is none, EINVAL when it is something else.
UniqueFd OpenPin(const Args& args, const std::string& path, FdKind kind);

// Pins what `fd` stands for below a bpffs; `object` is for the error.
void Pin(const Args& args, int fd, const std::string& path);

// bpf_obj_get_info_by_fd into a bpf_map_info, bpf_prog_info or bpf_link_info.
template <class Info>
Info InfoOf(const Args& args, int fd, const std::string& object);

}  // namespace waggle
