import { readFileSync } from "node:fs";
import { Miniflare } from "miniflare";

/** A program: a Worker that does nothing on Miniflare, as Miniflare is usually started. Prints a line when it is ready. */
const contents = readFileSync(new URL("../workers/empty.js", import.meta.url), "utf8");
const miniflare = new Miniflare({
  host: "127.0.0.1",
  port: 0,
  cf: false,
  telemetry: { enabled: false },
  workers: [
    {
      config: {
        name: "empty",
        compatibilityDate: "2026-10-20",
        compatibilityFlags: [],
        manifest: { mainModule: "index.js", modules: { "index.js": { type: "esm", contents } } },
        env: {},
        exports: {},
      },
      dev: { rootPath: import.meta.dirname, unsafeRegisterWorker: false },
    },
  ],
});
const endpoint = await miniflare.ready;
await fetch(endpoint);
console.log(JSON.stringify({ endpoint }));
