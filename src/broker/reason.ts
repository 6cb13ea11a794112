/**
 * MQTT 5 reason codes (MQTT 5 2.4), the vocabulary in which the core refuses. The MQTT 3.1.1 door
 * translates them (02a section 20); other doors do likewise.
 */
export const Reason = {
  Success: 0x00,
  GrantedQoS1: 0x01,
  GrantedQoS2: 0x02,
  DisconnectWithWill: 0x04,
  NoSubscriptionExisted: 0x11,
  UnspecifiedError: 0x80,
  MalformedPacket: 0x81,
  ProtocolError: 0x82,
  ImplementationSpecificError: 0x83,
  UnsupportedProtocolVersion: 0x84,
  ClientIdentifierNotValid: 0x85,
  BadUserNameOrPassword: 0x86,
  NotAuthorized: 0x87,
  ServerUnavailable: 0x88,
  ServerBusy: 0x89,
  ServerShuttingDown: 0x8b,
  BadAuthenticationMethod: 0x8c,
  KeepAliveTimeout: 0x8d,
  SessionTakenOver: 0x8e,
  TopicFilterInvalid: 0x8f,
  TopicNameInvalid: 0x90,
  PacketIdentifierInUse: 0x91,
  PacketIdentifierNotFound: 0x92,
  ReceiveMaximumExceeded: 0x93,
  TopicAliasInvalid: 0x94,
  PacketTooLarge: 0x95,
  QuotaExceeded: 0x97,
  AdministrativeAction: 0x98,
  PayloadFormatInvalid: 0x99,
  RetainNotSupported: 0x9a,
  QoSNotSupported: 0x9b,
  SharedSubscriptionsNotSupported: 0x9e,
  MaximumConnectTime: 0xa0,
} as const;

export type ReasonCode = typeof Reason[keyof typeof Reason];

/** A request turned away: a value, not an exception. `reason` becomes the Reason String. */
export interface Refusal {
  readonly code: ReasonCode;
  readonly reason: string;
  /** What it is counted as, where the name of its code says too little (05 section 10.3). */
  readonly counted?: string;
  /** What the log says in place of `reason`, where the client must not be told. */
  readonly cause?: string;
}

/** The names that MQTT 5 gives its codes of refusal, in lower case: what refusals are counted as. */
const NAMES: Readonly<Partial<Record<ReasonCode, string>>> = {
  [Reason.UnspecifiedError]: "unspecified error",
  [Reason.MalformedPacket]: "malformed packet",
  [Reason.ProtocolError]: "protocol error",
  [Reason.ImplementationSpecificError]: "implementation specific error",
  [Reason.UnsupportedProtocolVersion]: "unsupported protocol version",
  [Reason.ClientIdentifierNotValid]: "client identifier not valid",
  [Reason.BadUserNameOrPassword]: "bad user name or password",
  [Reason.NotAuthorized]: "not authorized",
  [Reason.ServerUnavailable]: "server unavailable",
  [Reason.ServerBusy]: "server busy",
  [Reason.ServerShuttingDown]: "server shutting down",
  [Reason.BadAuthenticationMethod]: "bad authentication method",
  [Reason.KeepAliveTimeout]: "keep alive timeout",
  [Reason.SessionTakenOver]: "session taken over",
  [Reason.TopicFilterInvalid]: "topic filter invalid",
  [Reason.TopicNameInvalid]: "topic name invalid",
  [Reason.PacketIdentifierInUse]: "packet identifier in use",
  [Reason.PacketIdentifierNotFound]: "packet identifier not found",
  [Reason.ReceiveMaximumExceeded]: "receive maximum exceeded",
  [Reason.TopicAliasInvalid]: "topic alias invalid",
  [Reason.PacketTooLarge]: "packet too large",
  [Reason.QuotaExceeded]: "quota exceeded",
  [Reason.AdministrativeAction]: "administrative action",
  [Reason.PayloadFormatInvalid]: "payload format invalid",
  [Reason.RetainNotSupported]: "retain not supported",
  [Reason.QoSNotSupported]: "qos not supported",
  [Reason.SharedSubscriptionsNotSupported]: "shared subscriptions not supported",
  [Reason.MaximumConnectTime]: "maximum connect time",
};

/** What a refusal is counted and listed as: one of a closed set, never its Reason String. */
export function refusalName({ code, counted }: Pick<Refusal, "code" | "counted">): string {
  return counted ?? NAMES[code] ?? "rejected";
}
