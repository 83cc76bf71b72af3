// The way back of handles that nobody can reach, and what makes an engine look for them.

/** Handles that are dropped: the engine found them unreachable, or they were disposed. */
export class Dropped {
  readonly #wake: () => void;
  #registry: FinalizationRegistry<number>;
  #numbers: number[] = [];
  /** How many calls are in progress whose handles' numbers have to stay. */
  #keeping = 0;
  /** What is watched, where a registry that missed its task never has another. */
  readonly #watched: Map<number, WeakRef<object>> | null = null;
  /** The handles of this microtask, whose watch begins with its end, and their numbers. */
  #young: object[] = [];
  #youngNumbers: number[] = [];
  /** Whether the end of this microtask is awaited. */
  #isAwaited = false;
  readonly #ended = () => {
    this.#isAwaited = false;
    this.#age();
    if (this.#numbers.length > 0) this.#wake();
  };

  /** `wake` has what was noted taken. */
  constructor(wake: () => void) {
    this.#wake = wake;
    this.#registry = this.#begin();
    if (isFirefoxPage) this.#watched = new Map();
  }

  /** Watches a handle. Its number finds nothing once it was disposed. */
  watch(handle: object, number: number): void {
    const length = this.#young.push(handle);
    this.#youngNumbers.push(number);
    if (length === YOUNG_MAX) this.#age();
    this.#await();
  }

  /** Notes a handle that was disposed. The engine is spared the watch of the one that was made last. */
  disposed(handle: object, number: number): void {
    if (this.#young.at(-1) === handle) {
      this.#young.pop();
      this.#youngNumbers.pop();
    }
    this.#numbers.push(number);
    this.#await();
  }

  #age(): void {
    if (this.#young.length === 0) return;
    const [handles, numbers] = [this.#young, this.#youngNumbers];
    [this.#young, this.#youngNumbers] = [[], []];
    for (const [i, handle] of handles.entries()) {
      const number = numbers[i]!;
      this.#registry.register(handle, number);
      this.#watched?.set(number, new WeakRef(handle));
    }
  }

  /** Has the end of this microtask told; of the engine's ways the one that costs least. */
  #await(): void {
    if (this.#isAwaited) return;
    this.#isAwaited = true;
    void SETTLED.then(this.#ended);
  }

  /**
   * Runs what reads the numbers of handles and runs code of the program before it has handed them
   * over: what that disposes is taken later.
   */
  kept<R>(f: () => R): R {
    this.#keeping += 1;
    try {
      return f();
    } finally {
      this.#keeping -= 1;
    }
  }

  /** Takes a buffer that was noted alone, for a call that drops one; 0 for none. */
  takeOne(): number {
    const one = this.#numbers.length === 1 && this.#keeping === 0 ? this.#numbers[0]! : 0;
    if (one <= 0) return 0;
    this.#numbers.pop();
    return one;
  }

  /** Takes what was noted. */
  take(): number[] {
    if (this.#numbers.length === 0 || this.#keeping > 0) return NONE;
    const numbers = this.#numbers;
    this.#numbers = [];
    return numbers;
  }

  /** Watches anew, after tasks were missed; a number that is noted twice finds nothing then. */
  again(): void {
    this.#registry = this.#begin();
    for (const [number, watched] of this.#watched ?? []) {
      const handle = watched.deref();
      if (handle) this.#registry.register(handle, number);
      else this.#note(number);
    }
  }

  #begin(): FinalizationRegistry<number> {
    return new FinalizationRegistry((number) => this.#note(number));
  }

  /** Only a note: whoever comes next takes it, at the latest the end of this microtask. */
  #note(number: number): void {
    this.#watched?.delete(number);
    this.#numbers.push(number);
    this.#await();
  }
}

/**
 * Whether this is a page in Firefox. It drops callbacks, of promises too, that come while it keeps a
 * page that was left; and what an element refers to it finds after an idle moment alone.
 */
export const isFirefoxPage = "document" in globalThis && navigator.userAgent.includes("Firefox");

/**
 * The turns of rounds two and three: arrays that nobody touches, which raise the engine's pressure
 * to collect, and turns of the event loop, in which it tells what it collected.
 */
export class Pressure {
  readonly #over: () => void;
  readonly #witness = new Witness();
  #sizes: number[] = [];
  #until = 0;
  #turns = 0;
  /** Whether the witnesses fell in this round. */
  #isLate = false;

  constructor(over: () => void) {
    this.#over = over;
  }

  /** Starts a turn, and answers whether another may help. */
  take(round: number, turn: number): boolean {
    if (turn === 0) this.#begin(round);
    if (turn === 0 || (this.#isOver() && this.#sizes.length > 0)) this.#press();
    this.#turns -= 1;
    if (this.#witness.isFound) {
      // All was collected. Who waits for what was found hears of it in the turns that follow.
      this.#sizes = [];
      this.#turns = Math.min(this.#turns, STEP_TURNS);
    }
    const isIdle = this.#isLate && isFirefoxPage;
    (isIdle ? idleTurn() : eventLoopTurn()).then(this.#over);
    return this.#sizes.length > 0 || !this.#isOver();
  }

  /** Whether the turns after an array are over. */
  #isOver(): boolean {
    return this.#turns <= 0 || performance.now() >= this.#until;
  }

  #begin(round: number): void {
    const hasGc = typeof (globalThis as { gc?: unknown }).gc === "function";
    this.#sizes = hasGc ? [] : [...SIZES];
    if (round > 2) this.#sizes.push(LAST_BYTES, ...AGAIN);
    this.#isLate = false;
    this.#witness.stand();
  }

  #press(): void {
    const size = this.#sizes.shift();
    this.#isLate ||= size === LAST_BYTES;
    if (this.#isLate) this.#witness.fall();
    const gc = (globalThis as { gc?: (o?: object) => unknown }).gc;
    if (gc) void gc({ type: "major", execution: "sync" });
    if (size !== undefined) garbage(size);
    this.#until = performance.now() + (this.#isLate ? LAST_MS : STEP_MS);
    this.#turns = this.#isLate ? LAST_TURNS : STEP_TURNS;
  }
}

/**
 * Objects that only a full collection finds: they are kept for a while, and then let go. In Firefox
 * elements refer to them.
 */
class Witness {
  #registry: FinalizationRegistry<number> | undefined;
  #holders: object[] = [];
  #stand = 0;
  /** Whether one of those that were let go was found. */
  isFound = false;

  /** Keeps new ones. */
  stand(): void {
    if (this.#holders.length > 0) return;
    this.isFound = false;
    this.#stand += 1;
    this.#registry = new FinalizationRegistry((stand) => {
      this.isFound ||= stand === this.#stand;
    });
    // Several, since an engine may take what lies on its stack for one of them.
    this.#holders = Array.from({ length: 8 }, () => {
      const object = {};
      this.#registry!.register(object, this.#stand);
      return Object.assign(isFirefoxPage ? document.createElement("i") : {}, { object });
    });
  }

  /** Lets them go. */
  fall(): void {
    this.#holders = [];
  }
}

/**
 * Counts what a device hands out and does not get back, and makes garbage of that size now and
 * then, so that the engine learns of bytes which it does not see.
 */
export class Pacing {
  #bytes = 0;
  /** How many refusals came in a row. */
  #refusals = 0;
  /** The turn of the event loop after the last nudge, until it came. */
  #turn: Promise<void> | null = null;
  readonly #roomBytes: () => number;

  /** `roomBytes` answers what the device could still hand out. */
  constructor(roomBytes: () => number) {
    this.#roomBytes = roomBytes;
  }

  /**
   * Counts bytes made. Where they nudge the engine, answers the turn that follows the nudge before,
   * if it did not come yet: a loop that never lets the event loop turn has to wait for it.
   */
  made(bytes: number): Promise<void> | null {
    this.#bytes += bytes;
    this.#refusals = 0;
    if (this.#bytes < STEP_MIN) return null;
    const step = Math.min(Math.max(this.#roomBytes() / 4, STEP_MIN), STEP_MAX);
    if (this.#bytes < step) return null;
    this.#bytes = 0;
    garbage(step);
    const turn = this.#turn;
    if (turn) return turn.then(() => this.#wait());
    this.#wait();
    return null;
  }

  /** Presses the engine after a refusal, once a turn of the event loop: harder each time in a row. */
  refused(): void {
    if (this.#turn) return;
    garbage(SIZES[this.#refusals]!);
    this.#refusals = Math.min(this.#refusals + 1, SIZES.length - 1);
    this.#wait();
  }

  #wait(): void {
    this.#turn ??= eventLoopTurn().then(() => {
      this.#turn = null;
    });
  }

  /** Counts bytes that came back by a free or a dispose. */
  back(bytes: number): void {
    this.#bytes = Math.max(this.#bytes - bytes, 0);
  }
}

/** Makes an array that nobody touches, and lets it go. An engine may refuse one. */
function garbage(bytes: number): void {
  try {
    void new ArrayBuffer(bytes);
  } catch {
    // A refusal comes after a collection, which is all that this is for.
  }
}

/** Waits for a turn of the event loop, which hidden pages get too. */
export function eventLoopTurn(): Promise<void> {
  const { setImmediate } = globalThis as { setImmediate?: (f: () => void) => void };
  if (setImmediate) return new Promise((resolve) => setImmediate(resolve));
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    const over = () => {
      clearTimeout(timer);
      port1.close();
      resolve();
    };
    // No engine keeps a message for a page that is left or frozen; a timer goes on once it is back.
    const timer = setTimeout(over, LEFT_MS);
    port1.onmessage = over;
    port2.postMessage(0);
  });
}

/** Waits for a turn in which the engine may find that it is idle: messages keep it from that. */
function idleTurn(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve));
}

const NONE: number[] = [];
const SETTLED = Promise.resolve();
/** The most handles that are kept from the engine until a microtask ends. */
const YOUNG_MAX = 64;
const MIB = 2 ** 20;
/** Which sizes made every engine collect, on small heaps and with millions of objects. */
const SIZES = [32, 64, 128, 256, 512, 1024, 2048].map((size) => size * MIB);
/** An engine that refuses this one collects first. */
const LAST_BYTES = 16 * 1024 * MIB;
/** What follows where no full collection was seen: an engine that refuses that one may not collect. */
const AGAIN = Array<number>(7).fill(2048 * MIB);
/** Longer than a turn takes. */
const LEFT_MS = 200;
const STEP_MS = 10;
const STEP_TURNS = 16;
const LAST_MS = isFirefoxPage ? 80 : 250;
/** More than fit into the time, in any engine. */
const LAST_TURNS = 20_000;
const STEP_MIN = 16 * MIB;
const STEP_MAX = 256 * MIB;
