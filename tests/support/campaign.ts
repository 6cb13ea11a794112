/**
 * How much longer than in CI the seeded campaigns run: `make campaign` sets SAGUIN_CAMPAIGN, a whole
 * number of times their length in CI.
 */
export const CAMPAIGN = times(Deno.env.get("SAGUIN_CAMPAIGN") ?? "1");

function times(text: string): number {
  const value = Number(text);
  if (!Number.isInteger(value) || value < 1) {
    throw new Error(`SAGUIN_CAMPAIGN is "${text}"; write a whole number from 1 on`);
  }
  return value;
}
