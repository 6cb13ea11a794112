/**
 * Ports for brokers under test. Taken below the range from which the system hands out the near end of
 * outgoing connections, so that a port found free here stays free until the broker opens it. Runs beside
 * each other are given a part of it each in SAGUIN_PORTS, "20000-26000": lowest, and the first above.
 */
const [LOWEST, HIGHEST] = range(Deno.env.get("SAGUIN_PORTS") ?? "20000-32000");

const given = new Set<number>();

/** A TCP port that nothing listens on and that this process did not give out before. */
export function freePort(): number {
  for (let tries = 0; tries < 1_000; tries++) {
    const port = LOWEST + Math.floor(Math.random() * (HIGHEST - LOWEST));
    if (given.has(port)) continue;
    try {
      Deno.listen({ hostname: "0.0.0.0", port }).close();
    } catch (error) {
      if (error instanceof Deno.errors.AddrInUse) continue;
      throw error;
    }
    given.add(port);
    return port;
  }
  throw new Error(`no free port between ${LOWEST} and ${HIGHEST}`);
}

function range(text: string): [number, number] {
  const ports = /^(\d+)-(\d+)$/.exec(text);
  if (ports === null) throw new Error(`SAGUIN_PORTS is "${text}"; write it as 20000-32000`);
  return [Number(ports[1]), Number(ports[2])];
}
