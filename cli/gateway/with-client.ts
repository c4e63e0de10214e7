import type { ClientOptions } from "../options.ts";
import { Client } from "./client.ts";
import { findDoor } from "./door.ts";

/** Runs a command with a client of the gateway that the options and the environment name. */
export async function withClient<T>(options: ClientOptions, act: (client: Client) => Promise<T>): Promise<T> {
  const client = new Client(findDoor({ dataDir: options.data, env: process.env }));
  try {
    return await act(client);
  } finally {
    await client.close();
  }
}
