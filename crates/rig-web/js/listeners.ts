// Whether anybody listens to an event, which an `EventTarget` does not tell.

import { callable } from "./check.js";

/** The listeners of one target. */
export class Listeners {
  readonly #all = new WeakMap<object, EventListener>();
  #isHeard = false;

  /** Returns what listens in the place of a listener: the same each time, as the target compares them. */
  of(call: string, listener: EventListenerOrEventListenerObject | null | undefined): EventListener | null {
    if (listener === null || listener === undefined) return null;
    if (typeof listener !== "object") callable(call, "listener", listener);
    let own = this.#all.get(listener);
    if (!own) {
      own = (event) => {
        this.#isHeard = true;
        return typeof listener === "function" ? listener.call(event.currentTarget, event) : listener.handleEvent(event);
      };
      // Node has what it was given removed by the target's own method.
      this.#all.set(listener, own).set(own, own);
    }
    return own;
  }

  /** Runs what dispatches an event, and answers whether somebody heard it. */
  hear(dispatch: () => void): boolean {
    this.#isHeard = false;
    dispatch();
    return this.#isHeard;
  }
}
