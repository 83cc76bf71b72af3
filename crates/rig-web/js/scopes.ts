// What an engine finds wrong: error scopes.

/** Promises what each scope found, and ends them. */
export type Found = () => Promise<GPUError | null>[];

/** Begins error scopes, for all that an engine says of buffers and commands by default. */
export function watched(device: GPUDevice, filters: readonly GPUErrorFilter[] = ["validation", "out-of-memory"]): Found {
  for (const filter of filters) device.pushErrorScope(filter);
  return () => filters.map(() => device.popErrorScope());
}

/**
 * Makes a buffer that is to be mapped. On a device without room, or one that is being lost, that
 * fails, and nothing else is told of it.
 */
export function mappable(device: GPUDevice, descriptor: GPUBufferDescriptor): GPUBuffer {
  const found = watched(device);
  const buffer = device.createBuffer(descriptor);
  for (const error of found()) error.catch(() => undefined);
  return buffer;
}
