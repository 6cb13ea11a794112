/** What has to hold where AMQP listens (07 C2, C3). */
import { isLoopback, parseAddress } from "../address.ts";
import type { Findings } from "../finding.ts";
import type { Block, Settings } from "../settings.ts";
import { doorsOf } from "./doors.ts";

export function checkAmqp(settings: Settings, findings: Findings): void {
  const broker = settings.blocks.get("broker");
  const amqp = broker?.blocks.get("amqp");
  if (broker === undefined || amqp === undefined) return;
  const providers = broker.blocks.get("storage")?.list("providers") ?? [];
  checkStorage(amqp, providers, findings);
  checkAnonymous(amqp, broker.blocks.get("mqtt"), findings);
}

/** A queue is `durable` or it is not: a provider that cannot keep it is refused. */
function checkStorage(amqp: Block, providers: readonly Block[], findings: Findings): void {
  const setting = amqp.settings.get("storage");
  const provider = providers.find(({ name }) => name === setting?.value);
  if (setting === undefined || provider?.text("type") !== "memory") return;
  const says = "is a memory provider, which could not keep a durable queue; " +
    "name a provider of type sqlite in broker.amqp.storage";
  findings.add(setting.place, setting.path, says, setting.text);
}

/** Beyond this machine nobody comes in unasked but by somebody's decision. */
function checkAnonymous(amqp: Block, mqtt: Block | undefined, findings: Findings): void {
  const shared = mqtt?.text("password_file") !== undefined ||
    mqtt?.refused("password_file") === true;
  for (const { block } of doorsOf(amqp.blocks.get("listen"))) {
    const setting = block.settings.get("address");
    if (setting === undefined || block.refused("allow_anonymous")) continue;
    if (shared || block.text("password_file") !== undefined || block.refused("password_file")) {
      continue;
    }
    const anonymous = block.settings.get("allow_anonymous");
    if (anonymous?.value === false) {
      const says = "admits nobody: there is no password_file to know anybody by; " +
        "write a password_file, or leave the key out";
      findings.add(anonymous.place, anonymous.path, says, anonymous.text);
    } else if (anonymous?.value !== true && !isLoopback(parseAddress(setting.text))) {
      const says = "can be reached from other machines and asks nobody who they are; write a " +
        "password_file, allow_anonymous: true, or a loopback address such as 127.0.0.1:5672";
      findings.add(setting.place, setting.path, says, setting.text);
    }
  }
}
