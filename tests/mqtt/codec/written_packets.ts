/** Server packets by chance, written with our writer: what a client must read is returned. */
import type { PacketWriter } from "../../../src/mqtt/codec/encode.ts";
import type { Headers } from "../../../src/storage/record.ts";
import { generateDelivery, put } from "../../support/generate_deliveries.ts";
import { generateText, present } from "../../support/generate_packets.ts";
import type { MqttProperties, ServerPacket } from "../../support/mqtt_bytes.ts";
import type { Random } from "../../support/random.ts";

const SUBACK_CODES = [0x00, 0x01, 0x02, 0x80, 0x83, 0x87, 0x8f, 0x91, 0x97, 0x9e];
const UNSUBACK_CODES = [0x00, 0x11, 0x80, 0x83, 0x87, 0x8f, 0x91];
const PUBLISH_ANSWERS = [0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99];
const DISCONNECT_REASONS = [0x00, 0x80, 0x81, 0x82, 0x83, 0x8b, 0x8e, 0x8f, 0x93, 0x94, 0x95, 0x9e];

function explanation(random: Random): { reasonString?: string; userProperties?: Headers } {
  const pairs = random.between(1, 4);
  return present({
    reasonString: random.chance(0.4) ? generateText(random) : undefined,
    userProperties: random.chance(0.3)
      ? Array.from({ length: pairs }, () => [generateText(random), generateText(random)] as const)
      : undefined,
  });
}

function codes(random: Random, from: readonly number[]): number[] {
  return Array.from({ length: random.between(1, 5) }, () => random.pick(from));
}

/**
 * Writes one packet that exists at the writer's level and returns what it says. A DISCONNECT only when
 * it is the `last` one, as on any connection.
 */
export function writeSomething(random: Random, writer: PacketWriter, last: boolean): ServerPacket {
  const { level } = writer;
  const five = level === 5;
  const packetId = random.between(1, 65535);
  const said = explanation(random);
  const properties: MqttProperties = five ? said : {};
  switch (five && last && random.chance(0.5) ? 8 : random.below(8)) {
    case 0: {
      const { delivery, packet } = generateDelivery(random, level);
      put(writer, delivery);
      return packet;
    }
    case 1:
      return connack(random, writer);
    case 2: {
      const reasonCodes = codes(random, SUBACK_CODES);
      writer.suback(packetId, reasonCodes, said);
      const shown = five ? reasonCodes : reasonCodes.map((code) => Math.min(code, 0x80));
      return { type: "suback", packetId, reasonCodes: shown, properties };
    }
    case 3: {
      const reasonCodes = codes(random, UNSUBACK_CODES);
      writer.unsuback(packetId, reasonCodes, said);
      return { type: "unsuback", packetId, reasonCodes: five ? reasonCodes : [], properties };
    }
    case 4:
    case 5: {
      const name = random.pick(["puback", "pubrec"] as const);
      const reasonCode = random.pick(PUBLISH_ANSWERS);
      writer[name](packetId, reasonCode, said);
      return { type: name, packetId, reasonCode: five ? reasonCode : 0, properties };
    }
    case 6: {
      const name = random.pick(["pubrel", "pubcomp"] as const);
      const reasonCode = random.pick([0x00, 0x92]);
      writer[name](packetId, reasonCode, said);
      return { type: name, packetId, reasonCode: five ? reasonCode : 0, properties };
    }
    case 7:
      writer.pingresp();
      return { type: "pingresp" };
    default: {
      const reasonCode = random.pick(DISCONNECT_REASONS);
      writer.disconnect(reasonCode, said);
      return { type: "disconnect", reasonCode, properties };
    }
  }
}

function connack(random: Random, writer: PacketWriter): ServerPacket {
  const flag = () => random.chance(0.3) ? random.below(2) as 0 | 1 : undefined;
  const number = (most: number) => random.chance(0.3) ? random.between(0, most) : undefined;
  const reasonCode = random.chance(0.7) ? 0 : random.pick([1, 2, 3, 4, 5]);
  const sessionPresent = random.chance(0.5);
  const properties = present({
    sessionExpiry: number(0xffffffff),
    maximumQoS: flag(),
    retainAvailable: flag(),
    maximumPacketSize: number(0xffffffff),
    assignedClientId: random.chance(0.3) ? generateText(random) : undefined,
    topicAliasMaximum: number(65535),
    sharedSubscriptionAvailable: flag(),
    serverKeepAlive: number(65535),
    ...explanation(random),
  });
  writer.connack({ sessionPresent, reasonCode, ...properties });
  return {
    type: "connack",
    sessionPresent: sessionPresent && reasonCode === 0,
    reasonCode,
    properties: writer.level === 5 ? properties : {},
  };
}
