// What holds whenever nothing is under way: bytes, counts, and at the end that nothing is left.

import { allocsOf } from "./calls.mjs";
import { dropOut } from "./acts.mjs";
import { mostBytes } from "./model.mjs";
import { same, turn, within } from "./walk.mjs";

/** Compares the bytes of all memory, and what devices say of it. */
export async function checkAll(w) {
  w.say("all is compared");
  for (const alloc of allocsOf(w)) await checkBytes(w, alloc);
  for (const alloc of w.alone.splice(0)) await checkAlone(alloc);
  for (const dev of w.devs) if (!dev.ending) checkDevice(w, dev);
}

async function checkBytes(w, alloc) {
  for (const { out, at, size } of w.outs.filter((one) => one.alloc === alloc)) {
    const isGone = alloc.dead === "transferred";
    same(out.bytes, isGone ? [] : alloc.bytes.subarray(at, at + size), `an export on ${alloc.dev}`);
  }
  if (alloc.own && !alloc.dead) same(alloc.own, alloc.bytes, "what is wrapped");
  const h = w.r.of([...alloc.handles].filter(({ isLost }) => !isLost));
  if (!h) return;
  same(await within(h.buffer.toArray(Uint8Array), `${h} is read`), h.bytes, `${h}`);
  if (h.alloc.dev.isGpu && h.size > 0) h.alloc.dev.values += 1;
}

/** Compares what the program has alone, and ends it. */
async function checkAlone({ dev, bytes, isLent: buffer }) {
  if (dev.ending) return;
  const x = dev.device.wrapGpu(buffer, { length: bytes.length });
  same(await within(x.toArray(Uint8Array), "what was lent is read"), bytes, `what was lent of ${dev}`);
  dev.values += 1;
  x.dispose();
  buffer.destroy();
}

/** Compares the books of a device with what the walk knows; answers how many of its buffers are live. */
function checkDevice(w, dev) {
  const { device } = dev;
  const stats = device.stats();
  const { heldBytes, liveBytes, returningBytes, cachedBytes, stagingBytes, pinnedBytes, budgetBytes, labels } = stats;
  const fails = (what) => {
    throw new Error(`${dev}: ${what} (${JSON.stringify(stats)})`);
  };
  if (heldBytes !== liveBytes + returningBytes + cachedBytes + stagingBytes + pinnedBytes) fails("what is held is no sum");
  if (heldBytes !== device.held || cachedBytes !== device.cached || budgetBytes !== dev.budget) fails("its getters differ");
  if (heldBytes > Math.max(budgetBytes, liveBytes + returningBytes + stagingBytes)) fails("more is held than its budget");
  if (dev.isGpu && sum([...dev.made.values()]) !== heldBytes) fails(`its GPU has ${sum([...dev.made.values()])} bytes`);
  const live = allocsCharged(w, dev);
  const lengths = live.map(({ bytes }) => bytes.length);
  const count = sum(labels.map((label) => label.count));
  if (count === live.length) dev.limbo = [];
  if (count < live.length || count > live.length + dev.limbo.length) fails(`${count} are live, not ${live.length} and ${dev.limbo.length}`);
  if (dev.limbo.length === 0) checkLabels(live, labels, fails);
  const most = [...lengths, ...dev.limbo].map(mostBytes);
  if (liveBytes < sum(lengths) || liveBytes > sum(most)) fails(`live is not ${sum(lengths)} to ${sum(most)}`);
  const asked = stats.requestedBytes - stats.returnedBytes - dev.failedBytes;
  if (asked < sum(lengths) || asked > sum(lengths) + sum(dev.limbo)) fails(`${asked} bytes are asked for, not ${sum(lengths)}`);
  if (dev.isVague) dev.values = device.submitted;
  dev.isVague = false;
  if (device.submitted !== dev.values) fails(`${device.submitted} values were taken, not ${dev.values}`);
  if (dev.errors.length > 0) fails(`it tells of ${dev.errors}`);
}

function allocsCharged(w, dev) {
  return [...allocsOf(w)].filter((alloc) => alloc.dev === dev && alloc.isCharged);
}

function checkLabels(live, labels, fails) {
  const counts = {};
  for (const { label } of live) counts[label] = (counts[label] ?? 0) + 1;
  for (const { label, count } of labels) if (counts[label] !== count) fails(`${count} are labelled ${label}, not ${counts[label]}`);
}

const PAGE = 65_536;

const sum = (numbers) => numbers.reduce((all, one) => all + one, 0);

/** Lets go of everything, and finds nothing left. */
export async function end(w) {
  await checkAll(w);
  w.say("all is let go of");
  for (const { alloc } of w.handles) for (const claim of alloc.claims.splice(0)) claim.release();
  for (const one of [...w.outs]) dropOut(w, one);
  for (const h of [...w.handles]) {
    if (w.r.oneIn(4) && h.alloc.handles.has(h)) {
      h.buffer.free();
      w.kill(h.alloc, "freed");
    } else if (h.alloc.handles.has(h)) {
      h.buffer.dispose();
      w.drop(h);
    }
  }
  for (const dev of w.devs) await endDevice(w, dev);
  const { devices } = w.rig.stats();
  if (devices.length !== 1 && !w.hasForgotten) throw new Error(`${devices.map(({ name }) => name)} hold something`);
}

async function endDevice(w, dev) {
  const { device } = dev;
  if (!dev.ending) {
    await comeBack(w, dev);
    checkDevice(w, dev);
    // The engine tells of what was forgotten when it likes.
    await within(device.wait(device.submitted), "the last value is reached");
    const late = sum(dev.limbo.map(mostBytes));
    const isLeft = (bytes) => bytes > late + device.stats().stagingBytes;
    if (isLeft(device.held - device.cached)) throw new Error(`${dev} holds more than is cached: ${JSON.stringify(device.stats())}`);
    device.freeCache();
    await within(device.wait(device.submitted), "the last value is reached");
    if (isLeft(device.held)) throw new Error(`${dev} holds ${device.held} bytes in the end`);
    const { givenAwayBytes } = device.stats();
    if (givenAwayBytes > 0) throw new Error(`${givenAwayBytes} bytes of ${dev} are given away`);
    if (dev.made.size > dev.limbo.length) throw new Error(`${dev} left ${dev.made.size} GPU buffers`);
  }
  if (dev.kind === "host") return;
  await within(device.close(), `${dev} is closed`);
  await within(device.lost, `${dev} is lost`);
  if (dev.errors.length > 0) throw new Error(`${dev} tells of ${dev.errors}`);
  dev.page?.destroy();
  w.devs = w.devs.filter((other) => other !== dev || other.ending);
}

/** Waits until what was forgotten came back: by an exact collection, or by a create that has no room. */
async function comeBack(w, dev) {
  if (dev.limbo.length === 0) return;
  const { device } = dev;
  if (w.world.gc) {
    const count = () => sum(device.stats().labels.map((label) => label.count));
    const live = allocsCharged(w, dev).length;
    for (let i = 0; i < 20 && count() > live; i += 1) {
      await within(w.world.gc(), "the engine collects");
      await turn();
    }
    dev.limbo = dev.limbo.slice(0, w.world.stray);
  } else if (w.world.stray === 0 && w.r.oneIn(4)) {
    w.say(`a create that has no room until what was forgotten on ${dev} came back`);
    dev.budget = device.budget = Math.max(device.held, PAGE);
    // Memory of the host is made of pages.
    const unit = dev.kind === "host" ? PAGE : 4;
    const all = dev.budget - device.stats().stagingBytes;
    const buffer = await within(device.createBuffer(all - (all % unit)), "it is served");
    buffer.free();
    dev.limbo = dev.limbo.filter((length) => length < unit);
  }
}
