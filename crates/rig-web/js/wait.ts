// What calls that wait take besides, and how a signal ends a wait.

/** What a call that waits takes besides. */
export interface Wait {
  /** Aborted, the wait is given up and the promise rejects with the signal's reason; what was handed over runs on. */
  signal?: AbortSignal;
}

/**
 * Marks a promise that only tells completion: where nobody asks, its rejection is no unhandled one.
 * @internal
 */
export function completion(told: Promise<void>): Promise<void> {
  told.catch(() => undefined);
  return told;
}

/** @internal Waits for something that many may wait for; a signal ends the wait alone. */
export function raced<T>(work: Promise<T>, o: Wait): Promise<T> {
  const { signal } = o;
  if (!signal) return work;
  return new Promise<T>((resolve, reject) => {
    const aborted = () => reject(signal.reason);
    if (signal.aborted) aborted();
    signal.addEventListener("abort", aborted, { once: true });
    const over = () => signal.removeEventListener("abort", aborted);
    work.then(resolve, reject).then(over);
  });
}
