// The claims of one call: the right to read, and to take memory over that nobody else can notice.

import { type Buffer, numberOf } from "./buffer.js";
import { list, options, text } from "./check.js";
import { misuse } from "./error.js";
import type { Instance } from "./instance.js";

/** What a call claims. */
export interface ClaimOptions {
  /** What it reads. */
  reads?: readonly Buffer[] | undefined;
  /** What it may take over, each whole or not at all. */
  donate?: readonly (readonly Buffer[])[] | undefined;
}

/** The claims of one call of {@link Rig.withClaims}, which end with it. */
export class Claims {
  /** @internal */
  static readonly name = "Claims";
  readonly #instance: Instance;
  #number: number;

  /** @internal Its tag, like that of buffers. */
  get [Symbol.toStringTag](): string {
    return "Claims";
  }

  /** @internal Claims are made by {@link Rig.withClaims}. */
  constructor(rig: Instance, o: ClaimOptions) {
    this.#instance = rig;
    const { reads = [], donate = [] } = options(CALL, o);
    const take = (group: readonly Buffer[]) =>
      list(CALL, "a list of buffers", group, (buffer) => numberOf(CALL, "a buffer", buffer, rig));
    const groups = [take(reads), ...list(CALL, "donate", donate, take)];
    this.#number = rig.call((e) => {
      rig.putList([groups.length, ...groups.map(({ length }) => length), ...groups.flat()]);
      return e.claim_all();
    });
  }

  /**
   * Whether a donated buffer is this call's alone: it spans its memory, and nobody else has a claim
   * on it, an export of it, or a call in progress.
   */
  isExclusive(buffer: Buffer): boolean {
    const number = numberOf("isExclusive", "buffer", buffer, this.#instance);
    return this.#number !== 0 && this.#instance.call((e) => e.is_exclusive(this.#number, number)) !== 0;
  }

  /**
   * Takes the bytes of an exclusive buffer over: returns a new buffer, and makes all earlier ones
   * dead with `why`.
   */
  consume(buffer: Buffer, why: string): Buffer {
    text("consume", "why", why);
    const rig = this.#instance;
    const number = numberOf("consume", "buffer", buffer, rig);
    if (this.#number === 0) throw misuse("consume", "ClaimsEnded", "the claims have ended");
    const taken = rig.call((e) => {
      rig.putText(why);
      return e.consume(this.#number, number);
    });
    return buffer.takenOver(taken);
  }

  /** @internal Ends the claims. */
  end(): void {
    this.#instance.dropKept(this.#number);
    this.#number = 0;
  }
}

const CALL = "withClaims";
