// SPDX-License-Identifier: Apache-2.0
//
// program.h: a loaded program's descriptor.
#pragma once

#include <napi.h>

#include <cstdint>
#include <string>

#include "fd.h"
#include "handle.h"

namespace waggle {

struct ProgramState {
  UniqueFd fd;
  // As the kernel has it: at most 15 characters.
  std::string name;
  uint32_t id = 0;
  uint32_t type = 0;
};

class BpfProgram : public Handle<BpfProgram, ProgramState> {
 public:
  static constexpr HandleClass kClass = HandleClass::kProgram;
  static constexpr const char* kName = "BpfProgram";
  static constexpr napi_type_tag kTag = {0x7761676c70726f67, 0x91b3c4d5e6f70123};

  static void Init(Napi::Env env);
  static Napi::Object Make(const Args& args, UniqueFd fd);

  explicit BpfProgram(const Napi::CallbackInfo& info);

  bool open() const { return state_.fd.valid(); }
  const std::string& name() const { return state_.name; }
  const ProgramState& state() const { return state_; }

 private:
  Napi::Value TestRun(const Napi::CallbackInfo& info);
  Napi::Value PinAt(const Napi::CallbackInfo& info);
  Napi::Value Close(const Napi::CallbackInfo& info);
};

// native.openProgram(path)
Napi::Value OpenProgram(const Napi::CallbackInfo& info);

}  // namespace waggle
