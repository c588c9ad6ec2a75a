// SPDX-License-Identifier: Apache-2.0
//
// map.h: a map's descriptor and what can be done with its entries.
#pragma once

#include <napi.h>

#include <cstdint>
#include <string>

#include "fd.h"
#include "handle.h"

namespace waggle {

struct MapState {
  UniqueFd fd;
  std::string name;
  uint32_t type = 0;
  uint32_t key_size = 0;
  uint32_t value_size = 0;
  uint32_t max_entries = 0;
  uint32_t flags = 0;
  // Bytes of one value as user space sees it: per-CPU maps give one for each possible CPU.
  size_t user_value_size = 0;
};

class BpfMap : public Handle<BpfMap, MapState> {
 public:
  static constexpr HandleClass kClass = HandleClass::kMap;
  static constexpr const char* kName = "BpfMap";
  static constexpr napi_type_tag kTag = {0x7761676c656d6170, 0x8d1f2a3c5b7e9011};

  static void Init(Napi::Env env);
  // Takes over the descriptor and asks the kernel for the map's shape.
  static Napi::Object Make(const Args& args, UniqueFd fd);

  explicit BpfMap(const Napi::CallbackInfo& info);

  bool open() const { return state_.fd.valid(); }
  const std::string& name() const { return state_.name; }
  const MapState& state() const { return state_; }

 private:
  Napi::Value Lookup(const Napi::CallbackInfo& info);
  Napi::Value Update(const Napi::CallbackInfo& info);
  Napi::Value Delete(const Napi::CallbackInfo& info);
  Napi::Value UpdateBatch(const Napi::CallbackInfo& info);
  Napi::Value DeleteBatch(const Napi::CallbackInfo& info);
  Napi::Value Entries(const Napi::CallbackInfo& info);
  Napi::Value Mmap(const Napi::CallbackInfo& info);
  Napi::Value PinAt(const Napi::CallbackInfo& info);
  Napi::Value Close(const Napi::CallbackInfo& info);
};

// native.openMap(path)
Napi::Value OpenMap(const Napi::CallbackInfo& info);
// native.createMap(options)
Napi::Value CreateMap(const Napi::CallbackInfo& info);

}  // namespace waggle
