// The turns of the event loop for which the laws are suspended, where the engine can do that.

const pass = () => new Promise((resolve) => setTimeout(resolve, 1));

export const turn = WebAssembly.Suspending
  ? new WebAssembly.Suspending(pass)
  : () => {
      throw new Error("this engine suspends no wasm");
    };
