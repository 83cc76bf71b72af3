// Whether anybody listens to an event, which an `EventTarget` does not tell.

import { onAbort } from "./wait.js";

interface Listening {
  readonly listener: unknown;
  readonly capture: boolean;
  readonly once: boolean;
  /** Leaves the signal alone that would end it. */
  readonly over: () => void;
}

/** The listeners of one event, as its target has them. */
export class Listeners {
  #all: Listening[] = [];

  /** Notes one: as for the target, the same twice is one. */
  add(listener: unknown, options?: boolean | AddEventListenerOptions): void {
    const { capture = false, once = false, signal } = optionsOf(options);
    if (!listener || signal?.aborted || this.#all.some(is(listener, capture))) return;
    const over = signal ? onAbort(signal, () => this.remove(listener, capture)) : () => undefined;
    this.#all.push({ listener, capture, once, over });
  }

  /** Forgets one. */
  remove(listener: unknown, options?: boolean | EventListenerOptions): void {
    const isIt = is(listener, optionsOf(options).capture ?? false);
    this.#keep((one) => !isIt(one));
  }

  /** Whether an event that comes now is heard. Who listens once hears no other. */
  hear(): boolean {
    const isHeard = this.#all.length > 0;
    this.#keep(({ once }) => !once);
    return isHeard;
  }

  #keep(stays: (one: Listening) => boolean): void {
    for (const one of this.#all) if (!stays(one)) one.over();
    this.#all = this.#all.filter(stays);
  }
}

function optionsOf(options?: boolean | AddEventListenerOptions): AddEventListenerOptions {
  return typeof options === "object" && options !== null ? options : { capture: Boolean(options) };
}

function is(listener: unknown, capture: boolean): (one: Listening) => boolean {
  return (one) => one.listener === listener && one.capture === capture;
}
