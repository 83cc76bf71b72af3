// Every call that a page can make after a loss. None is left out for what it answers.

/** Returns the calls on memory: each takes a buffer, and other memory of the page. */
export function callsOfMemory(rig) {
  return [
    ["ask for size and label", ({ size, label }) => void [size, label]],
    ["ask for its state", ({ state }) => state],
    ["ask for its stamps", (of) => of.stamps()],
    ["take its bytes out", (of) => of.toArray(Uint8Array, { length: 4 })],
    ["put bytes in", (of) => of.blitFrom(new Uint8Array(4))],
    ["fill it", (of) => of.fill(0)],
    ["copy from it", (of, other) => rig.copy(of, other)],
    ["copy into it", (of, other) => rig.copy(other, of)],
    ["claim it for reading", (of) => of.claimRead().release()],
    ["take a view of it", (of) => of.view(0, 4).dispose()],
    ["free it", (of) => of.free()],
  ];
}

/** Returns the calls on the device. */
export function callsOfDevice({ webgpu, wgsl }) {
  const calls = [
    ["create a buffer", (of) => of.createBuffer(4)],
    ["create one without waiting", (of) => of.createBufferNow(4)],
    ["submit work", (of) => of.submit({ writes: [] })],
    ["wait for its first work, long done", (of) => of.wait(1)],
    ["ask how much work it was given", (of) => of.submitted],
    ["ask how much work it did", (of) => of.reached],
    ["ask how many bytes it holds", (of) => of.held],
    ["ask for its statistics", (of) => of.stats()],
    ["ask why it is lost", async (of) => void (await of.lost)],
    ["close it", (of) => of.close()],
  ];
  if (webgpu) calls.splice(2, 0, ["compile a kernel", (of) => of.kernel(wgsl)]);
  return calls;
}
