// What devices hold and what came of their allocations, as plain data: statistics and reports.

/** What a device pays for, in bytes. */
export interface Held {
  /** The budget; `Infinity` is unbounded. */
  readonly budgetBytes: number;
  /** In buffers that somebody can reach. */
  readonly liveBytes: number;
  /** On their way back: unreachable, and waiting for the work that used them. */
  readonly returningBytes: number;
  /** Waiting for reuse. */
  readonly cachedBytes: number;
  /** What copies pass through. */
  readonly stagingBytes: number;
  /** Page-locked memory; none in browsers. */
  readonly pinnedBytes: number;
  /** Lent to the page and without handles since; not among those held. */
  readonly givenAwayBytes: number;
}

/** What is live. */
export interface Live {
  /** The 10 greatest live totals by label, greatest first: what is kept that should have gone. */
  readonly labels: readonly LabelTotal[];
  /** Live totals by the place that made them; only with `init({ tracePool: true })`. */
  readonly sites: readonly SiteTotal[];
}

/** The statistics of one device, or of all together: counts, bytes, nanoseconds. */
export interface Counters extends Held {
  /** The device's name. */
  readonly name: string;
  /** The bytes that it pays for: live, returning, cached, staging and page-locked ones together. */
  readonly heldBytes: number;
  /** The most bytes held so far. */
  readonly peakHeldBytes: number;
  /** The most bytes live so far. */
  readonly peakLiveBytes: number;
  /** Buffers asked for, those that failed too. */
  readonly requestedCount: number;
  /** Their bytes, as asked for. */
  readonly requestedBytes: number;
  /** Buffers freed, or that nobody could reach any more. */
  readonly returnedCount: number;
  /** Their bytes, as asked for. */
  readonly returnedBytes: number;
  /** Allocations that the driver made. */
  readonly actualCount: number;
  /** Their bytes. */
  readonly actualBytes: number;
  /** Allocations that the driver took back. */
  readonly freedCount: number;
  /** Their bytes. */
  readonly freedBytes: number;
  /** Requests by what served them: the cache at once, the driver at once, and each of them after a round. */
  readonly kindCounts: readonly [number, number, number, number];
  /** Nanoseconds in drivers, to allocate and to free. */
  readonly driverNs: number;
  /** Nanoseconds in drivers and in rounds of reclaim. */
  readonly totalNs: number;
}
/** The statistics of one device, with what is live on it: plain data. */
export interface DeviceStats extends Counters, Live {}

/** What became of cached memory, in bytes. */
export interface Returned {
  /** What went back to the driver. */
  readonly returned: number;
  /** What follows once its device is done with it. */
  readonly pending: number;
}

/** What a round could not return, in bytes by reason. */
export interface Kept {
  /** In buffers that somebody can reach. */
  readonly liveBytes: number;
  /** Under a claim. */
  readonly claimedBytes: number;
  /** In an export. */
  readonly exportedBytes: number;
  /** Lent to the page. */
  readonly lentBytes: number;
  /** Mapped by another device. */
  readonly mappedBytes: number;
  /** Used by work not reached yet, by the name of the device that runs it. */
  readonly unreached: readonly (readonly [string, number])[];
  /** Used by a lost device that has not settled. */
  readonly lostBytes: number;
}

/** What one round of reclaim came to, within a {@link Report}. */
export interface Round {
  /** The bytes that it returned. */
  readonly returnedBytes: number;
  /** The bytes whose work it waited for. */
  readonly waitedBytes: number;
  /** What it could not return. */
  readonly kept: Kept;
}

/** What is live under one label. */
export interface LabelTotal {
  /** The label; empty for buffers without one. */
  readonly label: string;
  /** Their bytes. */
  readonly bytes: number;
  /** How many they are. */
  readonly count: number;
}

/** What is live of one place of the program. */
export interface SiteTotal {
  /** The place, as the engine writes it. */
  readonly site: string;
  /** The bytes of the buffers made there. */
  readonly bytes: number;
  /** How many they are. */
  readonly count: number;
}

/** Why an allocation found no room: what was asked, what is held, what each round returned. */
export interface Report extends Held, Live {
  /** The bytes asked for. */
  readonly askedBytes: number;
  /** The bytes that the allocation takes: its bin's. */
  readonly binBytes: number;
  /** The device whose budget is charged. */
  readonly payer: string;
  /** The largest entry of the cache. */
  readonly largestCachedBytes: number;
  /** The rounds that were run, in order; none where no round could help. */
  readonly rounds: readonly Round[];
  /** Whether the form that never reclaims failed: `createBufferNow`. */
  readonly immediate: boolean;
}
