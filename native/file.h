// SPDX-License-Identifier: Apache-2.0
//
// file.h: a whole file in memory.
#pragma once

#include <string>
#include <vector>

#include "args.h"

namespace waggle {

// Only regular files (a pipe would block) of at most 256 MiB, else EINVAL and EFBIG. Read
// at once: a file that is cut short while mapped would end the process.
std::vector<char> ReadFile(const Args& args, const std::string& path);

// Throws what ReadFile would, for a path that libbpf opens itself.
void RequireRegularFile(const Args& args, const std::string& path);

}  // namespace waggle
