import { registerHooks } from "node:module";

// Objects import what the runtime has: here it is the simulation's.
registerHooks({
  resolve(specifier, context, next) {
    if (specifier !== "cloudflare:workers") return next(specifier, context);
    return { url: new URL("./platform/workers.ts", import.meta.url).href, shortCircuit: true };
  },
});
