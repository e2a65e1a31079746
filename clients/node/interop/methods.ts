/** The methods that a scenario can name. */

import type { DescMethod } from "@bufbuild/protobuf";

import { Health } from "../src/gen/es/grpc/health/v1/health_pb.js";
import { InferenceService } from "../src/gen/es/headrace/v1/inference_service_pb.js";
import { ModelService } from "../src/gen/es/headrace/v1/model_service_pb.js";

const METHODS = new Map<string, DescMethod>([
  ...[...InferenceService.methods, ...ModelService.methods].map((method) => entry("", method)),
  ...Health.methods.map((method) => entry("Health", method)),
]);

function entry(prefix: string, method: DescMethod): [string, DescMethod] {
  return [prefix + method.name, method];
}

/** The method of a name such as `Generate` or `HealthCheck`. */
export function methodOf(name: string): DescMethod {
  const method = METHODS.get(name);
  if (method === undefined) throw new Error(`there is no method ${name}`);
  return method;
}
