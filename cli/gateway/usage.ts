import { CatalogueUsage, type Space, TOLD_FROM } from "../../protocol/repos.ts";
import { type Client, GatewayError } from "./client.ts";

/** What the catalogue takes up; undefined if the key is for some repos alone. */
export async function catalogueSpace(client: Client): Promise<Space | undefined> {
  try {
    return (await client.call(CatalogueUsage, { method: "GET", path: "/usage" })).catalogue;
  } catch (error) {
    if (error instanceof GatewayError && error.status === 403) return undefined;
    throw error;
  }
}

/** Whether so much of a database is taken that its operator should hear of it. */
export function isAlmostFull({ usedBytes, limitBytes }: Space): boolean {
  return usedBytes >= TOLD_FROM * limitBytes;
}
