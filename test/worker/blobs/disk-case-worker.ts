import { DiskBlobStore } from "../../../worker/blobs/stores.ts";
import { READ_CASES } from "./read-cases.ts";
import { STORE_CASES } from "./store-cases.ts";

const CASES = [...STORE_CASES, ...READ_CASES];

/** Where `PUT` asks for a blob that is never written to its end. */
const STALLED = "/stalled";

/**
 * Runs the case whose number is the path, first those of the store, then those of reading, against the disk service: 204, or
 * 500 with what went wrong.
 */
export default {
  async fetch(request, { DISK }) {
    if (new URL(request.url).pathname === STALLED) {
      const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
      await Promise.all([
        writable.getWriter().write(new Uint8Array(64 * 1024)),
        DISK.fetch("http://disk/b/a7/stalled", { method: "PUT", body: readable }),
      ]);
    }
    try {
      await CASES[Number(new URL(request.url).pathname.slice(1))]?.run(new DiskBlobStore(DISK));
      return new Response(null, { status: 204 });
    } catch (error) {
      return new Response(String(error), { status: 500 });
    }
  },
} satisfies ExportedHandler<{ DISK: Fetcher }>;
