import { registerHooks } from "node:module";
import { fileURLToPath } from "node:url";
import { hasSmall, SMALL, withSmallLimits } from "./limits/limits.ts";
import { loadWasm } from "./wasm.ts";

// Objects import what the runtime has: here it is the simulation's. What code with small limits imports has small limits, too.
registerHooks({
  resolve(specifier, context, next) {
    if (specifier === "cloudflare:workers")
      return { url: new URL("./platform/workers.ts", import.meta.url).href, shortCircuit: true };
    const found = next(specifier, context);
    const isSmall = context.parentURL?.endsWith(SMALL) && found.url.startsWith("file:");
    return isSmall && hasSmall(fileURLToPath(found.url)) ? { ...found, url: `${found.url}${SMALL}` } : found;
  },
  load(url, context, next) {
    if (url.endsWith(SMALL)) return { ...next(url, context), source: withSmallLimits(fileURLToPath(url)) };
    if (!url.endsWith(".wasm")) return next(url, context);
    return { format: "module", source: loadWasm(fileURLToPath(url)), shortCircuit: true };
  },
});
