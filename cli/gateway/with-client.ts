import { printNote } from "../output/output.ts";
import { Client, GatewayError } from "./client.ts";
import { type Connection, type ConnectionOptions, findConnection } from "./connection/connection.ts";

/** Runs a command with a client of the gateway that the options and the environment name. */
export async function withClient<T>(
  options: ConnectionOptions,
  act: (client: Client) => Promise<T>,
): Promise<T> {
  const client = new Client(openConnection(options));
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

/** The gateway that the options and the environment name. What else they name is told on stderr. */
export function openConnection(options: ConnectionOptions): Connection {
  const { passedOver, ...connection } = findConnection(options, process.env);
  for (const line of passedOver) printNote(line);
  return connection;
}
