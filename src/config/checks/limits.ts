/** Limits against each other. */
import type { Findings } from "../finding.ts";
import type { Settings } from "../settings.ts";

export function checkLimits(settings: Settings, findings: Findings): void {
  const message = settings.at("broker.limits.max_message_size");
  const connect = settings.at("broker.limits.max_connect_size");
  const queue = settings.at("broker.limits.session_queue_bytes");
  if (message === undefined) return;
  const named = `${message.path} (${message.text})`;
  if (connect !== undefined && Number(connect.value) > Number(message.value)) {
    const says = `is above ${named}, which bounds every packet; write at most that`;
    findings.add(connect.place, connect.path, says, connect.text);
  }
  if (queue !== undefined && Number(queue.value) < Number(message.value)) {
    const says = `is below ${named}, so that one message could not wait; write at least that`;
    findings.add(queue.place, queue.path, says, queue.text);
  }
}
