// The package's types, as a strict program meets them: the first program of the README.

import { init, RigError, type Buffer, type Device, type Point, type Rig } from "rig-web";

const DOUBLE = `
@group(0) @binding(0) var<storage, read_write> x: array<f32>;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) { x[id.x] *= 2.0; }`;

interface Bound {
  x: Buffer;
}

export async function main(page: GPUDevice): Promise<Float32Array> {
  const rig: Rig = await init({ pacing: true });
  const gpu: Device = await rig.open("gpu", { budget: 256 * 2 ** 20, adapter: { powerPreference: "low-power" } });
  const theirs = rig.adopt(page, { name: "theirs" });
  const h: Buffer = await rig.host.createBuffer(4 * 65_536, { label: "h" });
  const x = await gpu.createBuffer(4 * 65_536, { signal: AbortSignal.timeout(1_000) });
  const written: number = await h.write((bytes) => bytes.fill(1).length);
  await rig.copy(h, x);
  const double = await gpu.kernel(DOUBLE, { entryPoint: "main" });
  const groups: readonly number[] = [1_024];
  const bound: Bound = { x };
  const done: Point = double.run(bound, groups);
  // @ts-expect-error A text is no binding.
  double.run({ x: "x" }, groups);
  const maybe = { label: undefined, signal: undefined, budget: undefined, offset: undefined, after: undefined };
  gpu.submit({ ...maybe, reads: [x] });
  await x.fill(0, maybe);
  await gpu.wait(done);
  const own = gpu.submit({ reads: [x], writes: [], after: [done] }, ({ encoder, buffer }) => {
    const { buffer: from, offset, size } = buffer(x);
    encoder.copyBufferToBuffer(from, offset, x.lend().buffer, 0, size + written);
  });
  await x.blitFrom(new Float32Array([1, 2, 3]), { offset: 4 });
  const borrowed: Buffer | null = x.borrow(theirs);
  const { write, uses } = (borrowed ?? x).stamps();
  using claim = x.claimRead();
  claim.release();
  gpu.addEventListener("lost", (event) => console.log((event as CustomEvent<RigError>).detail.why));
  console.log(own.value, write?.value, uses.length, gpu.facts.largest, x.state satisfies string);
  return x.toArray(Float32Array, { offset: 4, length: 12 });
}

export async function wrong(rig: Rig, device: Device): Promise<string> {
  try {
    // @ts-expect-error A size is a number.
    await device.createBuffer("4");
    // @ts-expect-error A point is not made of a text.
    await device.wait("7");
    // @ts-expect-error The host's bytes are no GPU buffer.
    rig.wrap(4);
  } catch (e) {
    if (RigError.is(e) && e.code === "OutOfMemory") return `${e.report?.rounds.length} of ${e.askedBytes}`;
    throw e;
  }
  return "";
}
