import type { ClientOptions } from "../options.ts";
import { Client, GatewayError } from "./client.ts";
import { findConnection } from "./connection.ts";

/** Runs a command with a client of the gateway that the options and the environment name. */
export async function withClient<T>(options: ClientOptions, act: (client: Client) => Promise<T>): Promise<T> {
  const client = new Client(findConnection({ dataDir: options.data, env: process.env }));
  try {
    return await act(client);
  } catch (error) {
    if (!(error instanceof GatewayError && error.status === 404)) throw error;
    const { explained } = await import("./ids/did-you-mean.ts");
    throw await explained(client, error);
  } finally {
    await client.close();
  }
}
