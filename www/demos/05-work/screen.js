// What both lanes share on WebGPU: pixels onto a canvas, and how the end of work is known.

/** A canvas that a device puts pixels on. */
export class Screen {
  /** The order of a pixel's colours on the canvas, which a shader follows: then no pixel is converted. */
  static get order() {
    return navigator.gpu.getPreferredCanvasFormat().slice(0, 4);
  }

  /**
   * @param {GPUDevice} device
   * @param {OffscreenCanvas} canvas
   */
  constructor(device, canvas) {
    const format = navigator.gpu.getPreferredCanvasFormat();
    const context = canvas.getContext("webgpu");
    if (!(context instanceof GPUCanvasContext)) throw new Error("this canvas has no WebGPU");
    this.cells = canvas.width;
    this.context = context;
    context.configure({ device, format, usage: COPY_DST, alphaMode: "opaque" });
  }

  /**
   * Puts pixels on all of it, by a copy.
   * @param {GPUCommandEncoder} encoder
   * @param {{ buffer: GPUBuffer, offset?: number }} pixels
   */
  draw(encoder, { buffer, offset = 0 }) {
    const { cells, context } = this;
    const from = { buffer, offset, bytesPerRow: 4 * cells };
    encoder.copyBufferToTexture(from, { texture: context.getCurrentTexture() }, [cells, cells]);
  }
}

/**
 * Waits until a device has done what it was given. Some engines look only when more is submitted.
 * @param {GPUDevice} device
 */
export async function finished({ queue }) {
  const nudge = setInterval(() => queue.submit([]), NUDGE_MS);
  try {
    await queue.onSubmittedWorkDone();
  } finally {
    clearInterval(nudge);
  }
}

const NUDGE_MS = 4;
/** Of a texture: an engine without WebGPU has no name for it. */
const COPY_DST = 0x2;
