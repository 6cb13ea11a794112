import type { Alarm, AlarmListener } from "./alarm.ts";

/** One client under the alarm (A17): told once that it is blocked, and once that it is not, if it asked. */
export class BlockedPublisher implements AlarmListener {
  #asked = false;
  #told = false;

  /**
   * @param tell writes the reason, or undefined for the end of it
   * @param resume runs when publishes are taken again
   */
  constructor(
    private readonly alarm: Alarm,
    private readonly tell: (reason: string | undefined) => void,
    private readonly resume: () => void,
  ) {}

  /** @param asked the client advertised `connection.blocked` */
  join(asked: boolean): void {
    this.#asked = asked;
    this.alarm.add(this);
    if (this.alarm.reason !== undefined) this.alarmRaised(this.alarm.reason);
  }

  leave(): void {
    this.alarm.remove(this);
  }

  alarmRaised(reason: string): void {
    if (!this.#asked || this.#told) return;
    this.#told = true;
    this.tell(reason);
  }

  alarmCleared(): void {
    if (this.#told) this.tell(undefined);
    this.#told = false;
    this.resume();
  }
}
