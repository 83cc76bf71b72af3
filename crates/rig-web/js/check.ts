// What every call checks of its arguments, ahead of anything else: a mistake changes nothing.

import { misuse, outOfRoom } from "./error.js";

/** Checks options: plain data, with a signal and a label of their types where they have them. */
export function options<T extends object>(call: string, o: T | null | undefined): T {
  if (o === undefined || o === null) return {} as T;
  if (typeof o !== "object") throw wrong(call, "the options", o, "no object");
  const { signal, label } = o as { signal?: AbortSignal; label?: unknown };
  if (signal !== undefined && (typeof signal?.aborted !== "boolean" || !signal.addEventListener)) {
    throw wrong(call, "signal", signal, "no AbortSignal");
  }
  if (label !== undefined) text(call, "label", label);
  return o;
}

/** Checks a size or a value: an integer from 0 to 2^53 - 1. */
export function integer(call: string, name: string, value: unknown): number {
  if (typeof value !== "number" || !Number.isSafeInteger(value) || value < 0) {
    throw wrong(call, name, value, "not an integer from 0 to 2^53 - 1");
  }
  return value;
}

/** A class that knows its own objects: a proxy of one has no private members. */
interface Brand<T> {
  readonly name: string;
  is(value: object): value is T & object;
}

/** Checks that something is of a class of this copy of the package. */
export function instance<T>(call: string, name: string, value: unknown, of: Brand<T>): T {
  if (typeof value === "object" && value !== null && of.is(value)) return value;
  const isAlike = shown(value) === `a ${of.name}`;
  throw wrong(call, name, value, isAlike ? "a proxy of one, or of another copy of rig-web" : `not a ${of.name}`);
}

/**
 * Checks a list, of another realm too; returns what `take` makes of each thing as it is read, of
 * undefined where one is missing.
 */
export function list<T, U>(call: string, name: string, value: readonly T[], take: (item: T) => U): U[] {
  if (!Array.isArray(value)) throw wrong(call, name, value, "not an Array");
  const taken: U[] = [];
  for (const item of value as readonly T[]) taken.push(take(item));
  return taken;
}

/** Checks that something can be called. */
export function callable(call: string, name: string, value: unknown): void {
  if (typeof value !== "function") throw wrong(call, name, value, "not a function");
}

/** Checks a text. */
export function text(call: string, name: string, value: unknown): string {
  if (typeof value !== "string") throw wrong(call, name, value, "not a string");
  return value;
}

/** Checks a name: a text that is not empty. */
export function named(call: string, name: string, value: unknown): string {
  if (text(call, name, value) === "") throw wrong(call, name, value, "not a name");
  return value as string;
}

/** Checks a budget: a size, or infinity. */
export function budgetOf(call: string, value: unknown): number {
  return value === Infinity ? Infinity : integer(call, "budget", value);
}

/** Checks a flag that is there. */
export function flag(call: string, name: string, value: unknown): boolean {
  if (typeof value !== "boolean") throw wrong(call, name, value, "neither true nor false");
  return value;
}

/** Checks that an object has what this package calls of it. */
export function has(call: string, name: string, value: unknown, kind: string, ...members: string[]): void {
  const object = value as Record<string, unknown>;
  const isOne = typeof value === "object" && value !== null && members.every((member) => object[member] !== undefined);
  if (!isOne) throw wrong(call, name, value, `no ${kind}`);
}

/** Returns the bytes of a typed array or an ArrayBuffer of the program. */
export function bytesOf(call: string, name: string, value: unknown, why = "no typed array"): Uint8Array {
  const isView = ArrayBuffer.isView(value);
  if (!isView && Object.prototype.toString.call(value) !== "[object ArrayBuffer]") throw wrong(call, name, value, why);
  try {
    return isView ? new Uint8Array(value.buffer, value.byteOffset, value.byteLength) : new Uint8Array(value as ArrayBuffer);
  } catch {
    throw misuse(call, "Detached", `${name} is detached`);
  }
}

/** Makes a typed array of a class, for so many bytes. */
export function arrayOf<T extends ArrayBufferView>(call: string, type: new (count: number) => T, bytes: number): T {
  const { BYTES_PER_ELEMENT: element } = type as unknown as { BYTES_PER_ELEMENT: unknown };
  if (typeof element !== "number" || !(element >= 1)) throw wrong(call, "type", type, "no class of typed arrays");
  if (bytes % element !== 0) {
    throw misuse(call, "PartialElement", `${bytes} bytes are not a whole number of elements of ${element}`);
  }
  let made: T;
  try {
    made = new type(bytes / element);
  } catch (e) {
    throw e instanceof RangeError ? outOfRoom(bytes) : wrong(call, "type", type, "no class of typed arrays");
  }
  if (ArrayBuffer.isView(made) && made.byteLength === bytes) return made;
  throw wrong(call, "type", type, "no class of typed arrays");
}

/** Makes the error of an argument that is not what it should be. */
function wrong(call: string, name: string, value: unknown, why: string): Error {
  return misuse(call, "Option", `${name} is ${shown(value)}, which is ${why}`);
}

function shown(value: unknown): string {
  if (typeof value === "string") return JSON.stringify(value);
  if (typeof value === "function") return "a function";
  if (typeof value === "bigint") return `${value}n`;
  if (typeof value !== "object" || value === null) return String(value);
  try {
    return `a ${(value as { constructor?: { name?: string } }).constructor?.name ?? "object"}`;
  } catch {
    return "an object";
  }
}
