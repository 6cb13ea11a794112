/**
 * Where mqtt-packet 9.0.2 and this codec may differ, and why it is right that they do. The differential
 * test reads this list: what is not on it fails the test, and so does what is on it and never happens.
 */

/** A value that mqtt-packet cannot hold: `apply` makes of ours what is left of it there. */
export interface ValueDifference {
  readonly name: string;
  readonly why: string;
  readonly direction: "their encoder" | "their decoder" | "both";
  apply(headers: readonly Pair[]): readonly Pair[];
}

/** A packet that one side refuses and the other does not; `says` matches the refusing side's reason. */
export interface VerdictDifference {
  readonly refuses: "ours" | "theirs";
  readonly says: RegExp;
  readonly why: string;
}

export type Pair = readonly [name: string, value: string];

/** All that is known of in values lies in the User Properties. */
export const VALUE_DIFFERENCES: readonly ValueDifference[] = [
  {
    name: "an empty User Property value is lost to a later one of its name",
    direction: "their decoder",
    why:
      "it takes an empty string for no value yet and overwrites it; the standard allows empty values",
    apply(headers) {
      const kept: Pair[] = [];
      for (const header of headers) {
        const same = kept.filter(([name]) => name === header[0]);
        if (same.length === 1 && same[0][1] === "") kept.splice(kept.indexOf(same[0]), 1, header);
        else kept.push(header);
      }
      return kept;
    },
  },
  {
    name: "User Properties are grouped by name, names that look like array indices first",
    direction: "both",
    why: "it keeps them as keys of an object; 3.3.2.3.7 demands that a server keeps their order",
    apply(headers) {
      const object: Record<string, Pair[]> = Object.create(null);
      for (const header of headers) (object[header[0]] ??= []).push(header);
      return Object.values(object).flat();
    },
  },
];

/** Client packets that mqtt-packet does not encode, by its message. */
export const THEY_DO_NOT_ENCODE: readonly { says: RegExp; why: string }[] = [
  {
    says: /^Username is required to use password$/,
    why: "a rule of MQTT 3.1.1; MQTT 5 allows a password alone (3.1.2.9)",
  },
  {
    says: /^clientId must be given if cleanSession set to 0$/,
    why:
      "a rule of MQTT 3.1.1; MQTT 5 lets the server assign an identifier to any session (3.1.3.1)",
  },
];

/**
 * Client packets, spoiled or not, on which the verdicts part. Rules that chance seldom meets stand together
 * in one entry.
 */
export const VERDICT_DIFFERENCES: readonly VerdictDifference[] = [
  {
    refuses: "ours",
    says: /is not a UTF-8 string without U\+0000$/,
    why: "1.5.4 makes bad UTF-8 and U+0000 malformed; mqtt-packet puts U+FFFD in their place",
  },
  {
    refuses: "ours",
    says: /^(a field runs|the properties run) past the end of the packet$/,
    why: "mqtt-packet reads on in the bytes behind the packet, or takes what is missing for empty",
  },
  {
    refuses: "ours",
    says: /^bytes follow the last field of the packet$/,
    why: "a packet's length and its fields must agree; mqtt-packet skips the rest",
  },
  {
    refuses: "ours",
    says:
      /^a packet declares \d+ bytes, more than the \d+ allowed$|^the protocol name is not MQTT$/,
    why:
      "mqtt-packet has no Maximum Packet Size: it waits for whatever was declared, CONNECTs included",
  },
  {
    refuses: "ours",
    says: /^packet type (0 is reserved|15 is reserved in MQTT 3\.1\.1)$/,
    why: "ours refuses on the first byte, mqtt-packet when the packet is complete",
  },
  {
    refuses: "ours",
    says: /^the first packet is not a CONNECT$|^a second CONNECT on one connection$/,
    why: "mqtt-packet knows no order of packets",
  },
  {
    refuses: "ours",
    says: /^this packet type is only the server's to send$/,
    why: "mqtt-packet serves clients too",
  },
  {
    refuses: "ours",
    says: /^protocol level \d+ is not served/,
    why: "MQTT 3.1 and the bridge bit are refused by name here and decoded there",
  },
  {
    refuses: "ours",
    says: /(Remaining Length|Variable Byte Integer) is longer than its value needs$/,
    why: "1.5.5 demands the fewest bytes",
  },
  {
    refuses: "ours",
    says: new RegExp(
      "does not belong to this packet$|is only the server's to send here$|was sent twice$|" +
        "has a value that the standard forbids$",
    ),
    why: "2.2.2.2 and the sections of the properties; mqtt-packet checks identifiers only",
  },
  {
    refuses: "ours",
    says: new RegExp(
      "^a PUBLISH (has DUP set at QoS 0|topic has a wildcard|has neither a topic nor a Topic Alias)$|" +
        "^the packet (identifier is 0|has no topic filter)$|^a topic filter is empty$|" +
        "^the Will QoS is 3$|^MQTT 3.1.1 has no password without a user name$|" +
        "^Authentication Data came without an Authentication Method$|is not a client's to send here$",
    ),
    why: "rules of the standard that mqtt-packet leaves to its user",
  },
  {
    refuses: "theirs",
    says: /^Invalid disconnect reason code$|^Unknown property$|^Cannot parse property code type$/,
    why: "it takes the packet behind a short DISCONNECT for its reason code and properties",
  },
];
