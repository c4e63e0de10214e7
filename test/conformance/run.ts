import { startDevServer } from "../support/dev-server.ts";
import { removeScratch, scratchFolder } from "../support/scratch.ts";
import type { Outcome, Suite } from "./suite.ts";

/** Runs a suite against a gateway of its own. */
export async function runSuite(suite: Suite): Promise<Outcome[]> {
  const folder = scratchFolder();
  const server = await startDevServer({ variables: suite.variables });
  try {
    return await suite.run(server, folder);
  } finally {
    await server.stop();
    removeScratch(folder);
  }
}
