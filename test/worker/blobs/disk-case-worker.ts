import { DiskBlobStore } from "../../../worker/blobs/stores.ts";
import { STORE_CASES } from "./store-cases.ts";

/** Runs the case whose number is the path, against the disk service: 204, or 500 with what went wrong. */
export default {
  async fetch(request, { DISK }) {
    try {
      await STORE_CASES[Number(new URL(request.url).pathname.slice(1))]?.run(new DiskBlobStore(DISK));
      return new Response(null, { status: 204 });
    } catch (error) {
      return new Response(String(error), { status: 500 });
    }
  },
} satisfies ExportedHandler<{ DISK: Fetcher }>;
