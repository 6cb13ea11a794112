/** Features that roles withhold, as MQTT says it (02b 8.2). They are denied broker-wide, never per topic. */
import type { ClientRules } from "../auth/acl/client_rules.ts";
import type { StoredWill } from "../storage/contract.ts";
import type { PublishRequest } from "./publish.ts";
import { Reason, type Refusal } from "./reason.ts";
import type { Route } from "./routes.ts";

const WILL: Refusal = {
  code: Reason.NotAuthorized,
  reason: "the roles of this client deny Wills",
};
const RETAINED: Refusal = {
  code: Reason.RetainNotSupported,
  reason: "the roles of this client deny retained messages on broadcast topics",
};
const QOS2: Refusal = {
  code: Reason.QoSNotSupported,
  reason: "the roles of this client deny QoS 2",
};

/** Why a CONNECT with this Will is refused; `route` is that of its topic. */
export function deniedWill(
  rules: ClientRules,
  will: StoredWill,
  route: Route,
): Refusal | undefined {
  if (rules.denies("will")) return WILL;
  if (will.retain && route.kind === "broadcast" && rules.denies("retained")) return RETAINED;
  if (will.qos === 2 && rules.denies("qos2")) return QOS2;
  return undefined;
}

/** Why a publish ends its connection. */
export function deniedPublish(
  rules: ClientRules,
  request: PublishRequest,
  route: Route,
): Refusal | undefined {
  if (request.retain && route.kind === "broadcast" && rules.denies("retained")) return RETAINED;
  if (request.qos === 2 && rules.denies("qos2")) return QOS2;
  return undefined;
}
