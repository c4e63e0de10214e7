import { join } from "node:path";
import { expect, test } from "vitest";
import { unstable_readConfig } from "wrangler";
import { ROOT } from "../../support/dev-server.ts";

test.each([
  undefined,
  "staging",
])("of each request the Worker's own line alone is kept: others have URLs, and are charged for (environment %s)", (env) => {
  const { observability } = unstable_readConfig({ config: join(ROOT, "wrangler.toml"), ...(env && { env }) });
  expect(observability).toMatchObject({ enabled: true, logs: { enabled: true, invocation_logs: false } });
});
