import { registerHooks } from "node:module";
import { fileURLToPath } from "node:url";
import { loadWasm } from "./wasm.ts";

// Objects import what the runtime has: here it is the simulation's.
registerHooks({
  resolve(specifier, context, next) {
    if (specifier !== "cloudflare:workers") return next(specifier, context);
    return { url: new URL("./platform/workers.ts", import.meta.url).href, shortCircuit: true };
  },
  load(url, context, next) {
    if (!url.endsWith(".wasm")) return next(url, context);
    return { format: "module", source: loadWasm(fileURLToPath(url)), shortCircuit: true };
  },
});
