// What the wasm half says to answer a call besides a number, and of errors: values in their order.

import type { Counters, DeviceStats, Kept, LabelTotal, Live, Report, Round, SiteTotal } from "./stats.js";

/** Values that were said, which whoever knows them takes off in their order. */
export type Said = (number | string)[];

/** Takes a value for each name. */
export function named<T>(said: Said, names: string): T {
  const taken: Record<string, unknown> = {};
  for (const name of names.split(" ")) taken[name] = said.shift();
  return taken as T;
}

/** Takes a count, and as many things. */
export function listed<T>(said: Said, take: (said: Said) => T): T[] {
  return Array.from({ length: said.shift() as number }, () => take(said));
}

/** Takes the statistics of one device, or of all together. */
export function countersOf(said: Said): Counters {
  const counters = named<Counters>(said, `name budgetBytes heldBytes ${HELD} ${COUNTERS}`);
  return { ...counters, kindCounts: said.splice(0, 4) as [number, number, number, number] };
}

/** Takes the statistics of one device, with what is live on it. */
export function statsOf(said: Said): DeviceStats {
  return { ...countersOf(said), ...liveOf(said) };
}

/** Takes a report. */
export function reportOf(said: Said): Report {
  const report = named<Report>(said, `payer budgetBytes ${HELD} askedBytes binBytes largestCachedBytes immediate`);
  return { ...report, immediate: Boolean(report.immediate), ...liveOf(said), rounds: listed(said, roundOf) };
}

function liveOf(said: Said): Live {
  const labels = listed(said, () => named<LabelTotal>(said, "label bytes count"));
  return { labels, sites: listed(said, () => named<SiteTotal>(said, "site bytes count")) };
}

function roundOf(said: Said): Round {
  const round = named<Round>(said, "returnedBytes waitedBytes");
  const kept = named<Kept>(said, "liveBytes claimedBytes exportedBytes lentBytes mappedBytes lostBytes");
  const unreached = listed(said, () => said.splice(0, 2) as [string, number]);
  return { ...round, kept: { ...kept, unreached } };
}

const HELD = "liveBytes returningBytes cachedBytes stagingBytes pinnedBytes givenAwayBytes";
const COUNTERS =
  "peakHeldBytes peakLiveBytes requestedCount requestedBytes returnedCount returnedBytes " +
  "actualCount actualBytes freedCount freedBytes driverNs totalNs";
