import { Client } from "../gateway/client.ts";
import { findConnection } from "../gateway/connection/connection.ts";
import { CliError } from "../output/failure.ts";

/** What one check of `sluice doctor` came to. */
export interface Finding {
  /** What was looked at, such as `docker`. */
  readonly check: string;
  /** `warn`: a runner works without it, or may not for long; `fail`: none works so. */
  readonly state: "ok" | "warn" | "fail";
  /** What is there. */
  readonly found: string;
  /** What to do about it. */
  readonly fix?: string;
}

/** What a look at the gateway finds. Nothing, if there is none or its key may not look: other findings say that. */
export async function foundAt(
  from: Parameters<typeof findConnection>,
  look: (client: Client) => Promise<Finding[]>,
): Promise<Finding[]> {
  let client: Client | undefined;
  try {
    client = new Client(findConnection(...from));
    return await look(client);
  } catch (error) {
    if (error instanceof CliError) return [];
    throw error;
  } finally {
    await client?.close();
  }
}
