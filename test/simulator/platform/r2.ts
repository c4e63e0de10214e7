import type { Remote } from "./remote.ts";

/** A bucket of R2, which the blob store keeps its blobs in. */
export class SimulatedR2 {
  readonly blobs = new Map<string, Uint8Array>();
  /** When blobs went, by time itself. */
  readonly deletedAt = new Map<string, number>();
  readonly #remote: Remote;

  constructor(remote: Remote) {
    this.#remote = remote;
  }

  async put(name: string, bytes: Uint8Array): Promise<void> {
    const copy = bytes.slice();
    await this.#remote.ask(() => void this.blobs.set(name, copy));
  }

  async get(name: string, { range }: { range: { offset: number; length: number } }) {
    return await this.#remote.ask(() => {
      const bytes = this.blobs.get(name);
      if (!bytes) return null;
      const { offset, length } = range;
      return { size: bytes.length, body: streamOf(bytes.slice(offset, offset + length)) };
    });
  }

  async delete(names: readonly string[]): Promise<void> {
    await this.#remote.ask(() => {
      for (const name of names) if (this.blobs.delete(name)) this.deletedAt.set(name, this.#remote.now);
    });
  }

  async list({
    prefix,
    limit,
    startAfter = "",
    cursor = "",
  }: {
    prefix: string;
    limit: number;
    startAfter?: string;
    cursor?: string;
  }) {
    return await this.#remote.ask(() => {
      const from = cursor > startAfter ? cursor : startAfter;
      const names = [...this.blobs.keys()].filter((name) => name.startsWith(prefix) && name > from).sort();
      const page = names.slice(0, limit);
      const truncated = names.length > page.length;
      return { objects: page.map((key) => ({ key })), truncated, cursor: page.at(-1) };
    });
  }
}

/** Bytes that are all there: what Node makes of them takes turns of its own. */
export function streamOf(bytes: Uint8Array): ReadableStream<Uint8Array> {
  return new ReadableStream({
    type: "bytes",
    start(controller) {
      if (bytes.length > 0) controller.enqueue(bytes);
      controller.close();
    },
  });
}
