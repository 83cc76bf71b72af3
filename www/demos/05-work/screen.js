// What both lanes share on WebGPU: pixels onto a canvas, and how the end of work is known.

import { DRAW } from "./shaders.js";

/** A canvas that a device draws pixels onto. */
export class Screen {
  constructor(device, canvas) {
    const format = navigator.gpu.getPreferredCanvasFormat();
    this.device = device;
    this.context = canvas.getContext("webgpu");
    this.context.configure({ device, format, alphaMode: "opaque" });
    const module = device.createShaderModule({ code: DRAW });
    const fragment = { module, targets: [{ format }] };
    this.pipeline = device.createRenderPipeline({ layout: "auto", vertex: { module }, fragment });
  }

  /** Draws pixels, by a render pass. */
  draw(encoder, pixels) {
    const layout = this.pipeline.getBindGroupLayout(0);
    const group = this.device.createBindGroup({ layout, entries: [{ binding: 0, resource: pixels }] });
    const view = this.context.getCurrentTexture().createView();
    const pass = encoder.beginRenderPass({ colorAttachments: [{ view, loadOp: "clear", storeOp: "store" }] });
    pass.setPipeline(this.pipeline);
    pass.setBindGroup(0, group);
    pass.draw(3);
    pass.end();
  }
}

/** Waits until a device has done what it was given. Some engines look only when more is submitted. */
export async function finished({ queue }) {
  const nudge = setInterval(() => queue.submit([]), NUDGE_MS);
  try {
    await queue.onSubmittedWorkDone();
  } finally {
    clearInterval(nudge);
  }
}

const NUDGE_MS = 4;
