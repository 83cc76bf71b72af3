// What calls that wait take besides, and how a signal ends a wait.

/** What a call that waits takes besides. */
export interface Wait {
  /** Aborted, the wait is given up and the promise rejects with the signal's reason; what was handed over runs on. */
  signal?: AbortSignal | undefined;
}

/**
 * Marks a promise that only tells completion: where nobody asks, its rejection is no unhandled one.
 * @internal
 */
export function completion(told: Promise<void>): Promise<void> {
  told.catch(() => undefined);
  return told;
}

/** @internal Promises what `f` promises; what it throws rejects. */
export function promised<T>(f: () => Promise<T>): Promise<T> {
  try {
    return f();
  } catch (e) {
    return Promise.reject(e);
  }
}

/** @internal Waits for something that many may wait for; a signal ends the wait alone. */
export function raced<T>(work: Promise<T>, o: Wait): Promise<T> {
  const { signal } = o;
  if (!signal) return work;
  return new Promise<T>((resolve, reject) => {
    const aborted = () => reject(signal.reason);
    if (signal.aborted) aborted();
    work.then(resolve, reject).then(onAbort(signal, aborted));
  });
}

/** What ends with a signal, and what listens to it for all of that. */
interface Endings {
  readonly all: Set<() => void>;
  readonly heard: () => void;
}

const ENDINGS = new WeakMap<AbortSignal, Endings>();

/**
 * Calls `end` when a signal is aborted; answers what calls that off. However much ends with a signal,
 * it has one listener, and none once nothing does: engines warn of many.
 * @internal
 */
export function onAbort(signal: AbortSignal, end: () => void): () => void {
  const { all, heard } = ENDINGS.get(signal) ?? listened(signal);
  all.add(end);
  return () => {
    if (!all.delete(end) || all.size > 0) return;
    signal.removeEventListener("abort", heard);
    ENDINGS.delete(signal);
  };
}

function listened(signal: AbortSignal): Endings {
  const all = new Set<() => void>();
  const heard = () => {
    ENDINGS.delete(signal);
    for (const end of all) end();
  };
  signal.addEventListener("abort", heard, { once: true });
  ENDINGS.set(signal, { all, heard });
  return { all, heard };
}
