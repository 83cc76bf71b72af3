// Whether anybody listens to an event, which an `EventTarget` does not tell.

interface Listening {
  readonly listener: unknown;
  readonly capture: boolean;
  readonly once: boolean;
}

/** The listeners of one event, as its target has them. */
export class Listeners {
  #all: Listening[] = [];

  /** Notes one: as for the target, the same twice is one. */
  add(listener: unknown, options?: boolean | AddEventListenerOptions): void {
    const { capture = false, once = false, signal } = optionsOf(options);
    if (!listener || signal?.aborted || this.#all.some(is(listener, capture))) return;
    this.#all.push({ listener, capture, once });
    signal?.addEventListener("abort", () => this.remove(listener, capture), { once: true });
  }

  /** Forgets one. */
  remove(listener: unknown, options?: boolean | EventListenerOptions): void {
    const isIt = is(listener, optionsOf(options).capture ?? false);
    this.#all = this.#all.filter((one) => !isIt(one));
  }

  /** Whether an event that comes now is heard. Who listens once hears no other. */
  hear(): boolean {
    const isHeard = this.#all.length > 0;
    this.#all = this.#all.filter(({ once }) => !once);
    return isHeard;
  }
}

function optionsOf(options?: boolean | AddEventListenerOptions): AddEventListenerOptions {
  return typeof options === "object" && options !== null ? options : { capture: Boolean(options) };
}

function is(listener: unknown, capture: boolean): (one: Listening) => boolean {
  return (one) => one.listener === listener && one.capture === capture;
}
