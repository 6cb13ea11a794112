import { type DoorAccess, identify } from "../auth/identity.ts";
import type { PasswordChecker } from "../auth/password_checker.ts";
import type { Access, Credentials, LoginOutcome } from "./login.ts";

/** Logins of one door: its password file, and whether the name may come in by AMQP at all (A11). */
export class DoorLogins implements Access {
  /**
   * @param door what is in force at the door, replaced by a reload
   * @param mayConnect what the ACL says of `{broker: amqp, allow: [connect]}`
   */
  constructor(
    public door: DoorAccess,
    private readonly checker: PasswordChecker,
    private readonly mayConnect: (user: string) => boolean,
  ) {}

  async login(
    { user, password, proved }: Credentials,
    gone: () => boolean,
  ): Promise<LoginOutcome> {
    // PLAIN has no way to offer no name but an empty one.
    const claimed = { proved, user: user === "" ? undefined : user, password };
    const who = await identify(claimed, this.door, this.checker, gone);
    if ("refused" in who) {
      return { admitted: false, why: who.refused === "server busy" ? "busy" : "wrong" };
    }
    if (!this.mayConnect(who.user)) return { admitted: false, why: "denied" };
    return { admitted: true, user: who.user };
  }
}
