// Errors as programs see them: one class, made in one place.

import { named, reportOf, type Said } from "./said.js";
import type { Report } from "./stats.js";

/** What a caller can do about an error: fix the call, open again, make room, take another path. */
export type Code = "Misuse" | "Lost" | "OutOfMemory" | "Unsupported";

/**
 * The fields of an error. Which are there, its code says.
 * @internal
 */
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
  /** @internal */
  static readonly name: string = "RigError";
  /** What a caller can do about it. */
  declare readonly code: Code;
  /** The call that was wrong (Misuse). */
  declare readonly call?: string;
  /** What was wrong with it (Misuse), such as `Busy` or `OutOfRange`. */
  declare readonly what?: string;
  /** The device asked or lost. */
  declare readonly device?: string;
  /** Why it is lost, or what it cannot do. */
  declare readonly why?: string;
  /** The bytes asked for (OutOfMemory). */
  declare readonly askedBytes?: number;
  /** The bytes that the payer holds (OutOfMemory). */
  declare readonly heldBytes?: number;
  /** The payer's budget (OutOfMemory). */
  declare readonly budgetBytes?: number;
  /** What was tried, and what keeps the memory (OutOfMemory). */
  declare readonly report?: Report;
  /** The report as a picture for a person (OutOfMemory). */
  declare readonly picture?: string;

  private constructor(told: Told) {
    super(told.message);
    this.name = "RigError";
    Object.assign(this, told);
    Object.defineProperty(this, MARK, { value: true });
  }

  /** @internal Errors are made by this package. */
  static of(told: Told): RigError {
    return new RigError(told);
  }

  /** Returns the fields as plain data. */
  toJSON(): object {
    return { name: this.name, message: this.message, ...(this as object) };
  }

  /** Whether something is an error of this package, of whatever copy of it. */
  static is(e: unknown): e is RigError {
    return typeof e === "object" && e !== null && MARK in e;
  }
}

/** @internal Makes a mistake that was found on this side. */
export function misuse(call: string, what: string, text: string): RigError {
  return RigError.of({ code: "Misuse", message: `misuse of ${call}: ${text}`, call, what });
}

/** @internal Makes the error of a buffer that is dead. */
export function dead(call: string, why: string): RigError {
  return misuse(call, "Dead", `the buffer is dead: ${why}`);
}

/** @internal Makes an error of what is not to be had here. */
export function unsupported(device: string, why: string): RigError {
  return RigError.of({ code: "Unsupported", message: `${device} does not support this: ${why}`, device, why });
}

/** @internal Makes the error of an array that the engine refuses. */
export function outOfRoom(bytes: number): RigError {
  return unsupported("CPU", `the engine has no room for an array of ${bytes} bytes`);
}

/** @internal Makes the error of a device that is lost. */
export function lost(device: string, why: string): RigError {
  return RigError.of({ code: "Lost", message: `device ${device} is lost: ${why}`, device, why });
}

/** @internal Makes an error of what the wasm half says of it, in which calls have Rust's names. */
export function told(said: Said): RigError {
  const code = said.shift() as Code;
  if (code === "OutOfMemory") {
    const fields = named<Told>(said, "message device askedBytes heldBytes budgetBytes picture");
    const { message, picture = "" } = fields;
    const report = reportOf(said);
    return RigError.of({ ...fields, code, message: inJs(message), report, picture: inJs(picture) });
  }
  const [first, second, third] = said as [string, string, string];
  if (code === "Lost") return lost(first, second);
  if (code === "Unsupported") return unsupported(first, second);
  return misuse(first.replace(/_(.)/g, (_, letter: string) => letter.toUpperCase()), second, third);
}

function inJs(text: string): string {
  return text.replace("create_buffer reclaims", "createBuffer reclaims");
}
