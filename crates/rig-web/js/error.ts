// Errors as programs see them: one class, made in one place.

/** What one round of reclaim came to, within a {@link Report}. */
export interface Round {
  readonly returnedBytes: number;
  readonly waitedBytes: number;
  readonly kept: Readonly<Record<string, unknown>>;
}

/** Why an allocation found no room: what was asked, what is held, what each round returned. */
export interface Report {
  readonly askedBytes: number;
  readonly binBytes: number;
  readonly payer: string;
  readonly budgetBytes: number;
  readonly liveBytes: number;
  readonly returningBytes: number;
  readonly cachedBytes: number;
  readonly stagingBytes: number;
  readonly pinnedBytes: number;
  readonly givenAwayBytes: number;
  readonly largestCachedBytes: number;
  readonly labels: readonly { readonly label: string; readonly bytes: number; readonly count: number }[];
  readonly rounds: readonly Round[];
  readonly immediate: boolean;
}

/** What a caller can do about an error: fix the call, open again, make room, take another path. */
export type Code = "Misuse" | "Lost" | "OutOfMemory" | "Unsupported";

/** The fields of an error. Which are there, its code says. */
export interface Told {
  code: Code;
  message: string;
  call?: string;
  what?: string;
  device?: string;
  why?: string;
  askedBytes?: number;
  heldBytes?: number;
  budgetBytes?: number;
  report?: Report;
  picture?: string;
}

const MARK = Symbol.for("rig-web.RigError");

/** Every error of this package. No exception of the DOM gets out. */
export class RigError extends Error {
  readonly code!: Code;
  /** The call that was wrong (Misuse). */
  readonly call?: string;
  /** What was wrong with it (Misuse), such as `Busy` or `OutOfRange`. */
  readonly what?: string;
  /** The device asked or lost. */
  readonly device?: string;
  /** Why it is lost, or what it cannot do. */
  readonly why?: string;
  readonly askedBytes?: number;
  readonly heldBytes?: number;
  readonly budgetBytes?: number;
  readonly report?: Report;
  /** The report as a picture for a person. */
  readonly picture?: string;

  constructor(told: Told) {
    super(told.message);
    this.name = "RigError";
    Object.assign(this, told);
    Object.defineProperty(this, MARK, { value: true });
  }

  /** Returns the fields as plain data. */
  toJSON(): object {
    const { name, message, ...fields } = this;
    return { name: this.name, message: this.message, ...fields };
  }

  /** Whether something is an error of this package, of whatever copy of it. */
  static is(e: unknown): e is RigError {
    return typeof e === "object" && e !== null && MARK in e;
  }
}

/** Makes a mistake that was found on this side. */
export function misuse(call: string, what: string, text: string): RigError {
  return new RigError({ code: "Misuse", message: `misuse of ${call}: ${text}`, call, what });
}

/** Makes an error of what is not to be had here. */
export function unsupported(device: string, why: string): RigError {
  return new RigError({ code: "Unsupported", message: `${device} does not support this: ${why}`, device, why });
}

/** Checks a size or a value: an integer from 0 to 2^53 - 1. */
export function integer(call: string, name: string, value: unknown): number {
  if (typeof value !== "number" || !Number.isSafeInteger(value) || value < 0) {
    throw misuse(call, "Option", `${name} is ${shown(value)}, which is not an integer from 0 to 2^53 - 1`);
  }
  return value;
}

/** Checks that something is of a class. */
export function instance<T>(call: string, name: string, value: unknown, of: abstract new (...a: never[]) => T): T {
  if (!(value instanceof of)) {
    throw misuse(call, "Option", `${name} is ${shown(value)}, which is not a ${of.name}`);
  }
  return value;
}

/** Checks that something can be called. */
export function callable(call: string, name: string, value: unknown): void {
  if (typeof value !== "function") {
    throw misuse(call, "Option", `${name} is ${shown(value)}, which is not a function`);
  }
}

/** Returns a label, checked. */
export function labelOf(call: string, options: { label?: string } | undefined): string {
  const label = options?.label ?? "";
  if (typeof label !== "string") {
    throw misuse(call, "Option", `label is ${shown(label)}, which is not a string`);
  }
  return label;
}

function shown(value: unknown): string {
  if (typeof value === "object" && value !== null) return `a ${value.constructor?.name ?? "object"}`;
  return typeof value === "string" ? JSON.stringify(value) : String(value);
}
