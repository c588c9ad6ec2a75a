import { parse, type Type } from 'protobufjs'

/**
 * What we read of the API's objects in their protobuf form: a subset with the published
 * field numbers, so that a decoder skips the rest (managedFields, owners, selectors).
 * Fields that the API's Go types have as pointers are absent when unset; the others are
 * always there, as an empty string or 0.
 */
const SOURCE = `
syntax = "proto2";

message Time { optional int64 seconds = 1; optional int32 nanos = 2; }

message ObjectMeta {
  optional string name = 1;
  optional string namespace = 3;
  optional string uid = 5;
  optional string resourceVersion = 6;
  optional Time creationTimestamp = 8;
  optional Time deletionTimestamp = 9;
  map<string, string> labels = 11;
  map<string, string> annotations = 12;
}

message ListMeta { optional string resourceVersion = 2; optional string continue = 3; }

message Status {
  optional string message = 3;
  optional StatusDetails details = 5;
  optional int32 code = 6;
}
message StatusDetails { optional int32 retryAfterSeconds = 5; }

message Service {
  optional ObjectMeta metadata = 1;
  optional ServiceSpec spec = 2;
  optional ServiceStatus status = 3;
}
message ServicePort {
  optional string name = 1;
  optional string protocol = 2;
  optional int32 port = 3;
  optional int32 nodePort = 5;
}
message ServiceSpec {
  repeated ServicePort ports = 1;
  optional string clusterIP = 3;
  optional string type = 4;
  repeated string externalIPs = 5;
  optional string sessionAffinity = 7;
  repeated string loadBalancerSourceRanges = 9;
  optional string externalTrafficPolicy = 11;
  optional int32 healthCheckNodePort = 12;
  optional SessionAffinityConfig sessionAffinityConfig = 14;
  repeated string clusterIPs = 18;
  optional string internalTrafficPolicy = 22;
}
message SessionAffinityConfig { optional ClientIPConfig clientIP = 1; }
message ClientIPConfig { optional int32 timeoutSeconds = 1; }
message ServiceStatus { optional LoadBalancerStatus loadBalancer = 1; }
message LoadBalancerStatus { repeated LoadBalancerIngress ingress = 1; }
message LoadBalancerIngress { optional string ip = 1; optional string ipMode = 3; }

message EndpointSlice {
  optional ObjectMeta metadata = 1;
  repeated Endpoint endpoints = 2;
  repeated EndpointPort ports = 3;
  optional string addressType = 4;
}
message Endpoint {
  repeated string addresses = 1;
  optional EndpointConditions conditions = 2;
  optional string nodeName = 6;
  optional EndpointHints hints = 8;
}
message EndpointConditions { optional bool ready = 1; optional bool serving = 2; optional bool terminating = 3; }
message EndpointHints { repeated ForName forZones = 1; repeated ForName forNodes = 2; }
message ForName { optional string name = 1; }
message EndpointPort { optional string name = 1; optional string protocol = 2; optional int32 port = 3; }

message Node {
  optional ObjectMeta metadata = 1;
  optional NodeSpec spec = 2;
  optional NodeStatus status = 3;
}
message NodeSpec { repeated Taint taints = 5; repeated string podCIDRs = 7; }
message Taint { optional string key = 1; }
message NodeStatus { repeated NodeAddress addresses = 5; }
message NodeAddress { optional string type = 1; optional string address = 2; }

message Meta { optional ObjectMeta metadata = 1; }

message Unknown { optional TypeMeta typeMeta = 1; optional bytes raw = 2; optional string contentEncoding = 3; }
message TypeMeta { optional string apiVersion = 1; optional string kind = 2; }
message WatchEvent { optional string type = 1; optional RawExtension object = 2; }
message RawExtension { optional bytes raw = 1; }
`

const { root } = parse(SOURCE, { keepCase: true })
root.resolveAll()

export type MessageName =
  | 'Service'
  | 'EndpointSlice'
  | 'Node'
  | 'Meta'
  | 'ListMeta'
  | 'Status'
  | 'Unknown'
  | 'WatchEvent'

/** The message type of that name. */
export function messageType(name: MessageName): Type {
  return root.lookupType(name)
}
