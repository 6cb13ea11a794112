import { type Refusal, refuse, Reply } from "./reply.ts";
import type { MethodOf } from "./wire/methods.ts";
import type { FieldTable } from "./wire/table.ts";
import { decodeText } from "./wire/text.ts";

/** The one SASL mechanism (A11). */
export const MECHANISM = "PLAIN";

export interface Credentials {
  readonly user: string;
  readonly password: Uint8Array;
  /** The name that a verified certificate proved; it stands above what was typed. */
  readonly proved?: string;
}

/** Why a login does not come in: a wrong password is one thing to a client, being denied another. */
export type LoginOutcome =
  | { readonly admitted: true; readonly user: string }
  | { readonly admitted: false; readonly why: "wrong" | "denied" | "busy" };

/** Who may log in here and publish what; what stands behind it is no business of this room. */
export interface Access {
  /** `gone` is asked before work is done for nobody. */
  login(credentials: Credentials, gone: () => boolean): Promise<LoginOutcome>;
}

/** The credentials of a start-ok, or why there are none. */
export function credentialsOf(
  { mechanism, response }: MethodOf<"connection.start-ok">,
): Credentials | Refusal {
  if (mechanism !== MECHANISM) {
    return refuse(
      Reply.CommandInvalid,
      `the mechanism '${mechanism}' is not supported; supported: ${MECHANISM}`,
    );
  }
  const first = response.indexOf(0);
  const second = response.indexOf(0, first + 1);
  const parts = first >= 0 && second >= 0 && response.indexOf(0, second + 1) < 0;
  const user = parts ? decodeText(response, first + 1, second) : undefined;
  if (user === undefined) {
    return refuse(
      Reply.SyntaxError,
      "the response of PLAIN is not authzid NUL authcid NUL password in UTF-8",
    );
  }
  return { user, password: response.slice(second + 1) };
}

/** What a client says it understands (A10, A11, A17, A41). */
export interface Capabilities {
  readonly authenticationFailureClose: boolean;
  readonly consumerCancelNotify: boolean;
  readonly connectionBlocked: boolean;
}

export const NO_CAPABILITIES: Capabilities = {
  authenticationFailureClose: false,
  consumerCancelNotify: false,
  connectionBlocked: false,
};

export function capabilitiesOf(properties: FieldTable): Capabilities {
  const field = properties.get("capabilities");
  if (field?.type !== "F") return NO_CAPABILITIES;
  const has = (name: string) => {
    const value = field.value.get(name);
    return value?.type === "t" && value.value;
  };
  return {
    authenticationFailureClose: has("authentication_failure_close"),
    consumerCancelNotify: has("consumer_cancel_notify"),
    connectionBlocked: has("connection.blocked"),
  };
}

/** A client's own name for itself, for logs; empty for none. */
export function clientName(properties: FieldTable): string {
  for (const name of ["connection_name", "product"]) {
    const field = properties.get(name);
    if (field?.type === "S") {
      const text = decodeText(field.value, 0, field.value.length);
      if (text !== undefined) return text;
    }
  }
  return "";
}
