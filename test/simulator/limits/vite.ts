import type { Plugin } from "vitest/config";
import { hasSmall, SMALL, withSmallLimits } from "./limits.ts";

/** As ../hooks.ts, for tests: what code with small limits imports has small limits, too. */
export function smallLimits(): Plugin {
  return {
    name: "small limits",
    enforce: "pre",
    async resolveId(source, importer) {
      if (!importer?.endsWith(SMALL) || source.endsWith(SMALL)) return null;
      const found = await this.resolve(source, importer, { skipSelf: true });
      return found && !found.external && hasSmall(found.id) ? `${found.id}${SMALL}` : found;
    },
    load: (id) => (id.endsWith(SMALL) ? withSmallLimits(id.slice(0, -SMALL.length)) : null),
  };
}
