import { KeyPage, MAX_LIST_KEYS } from "../../../protocol/keys.ts";
import { type Client, GatewayError } from "../client.ts";

/**
 * What the keys are for that made some commits, by their ids. One without a description is missing, as are the root key, those
 * that were deleted, and those behind the first page of keys: an id that is in no page would have each list read them all.
 * If the gateway does not tell, nothing is known: only keys that handle keys may list them, and a list of commits is good
 * without.
 */
export async function describeKeys(
  client: Client,
  commits: readonly { readonly key: string | null }[],
): Promise<ReadonlyMap<string, string>> {
  const wanted = new Set(commits.flatMap(({ key }) => (key === null ? [] : [key])));
  if (wanted.size === 0) return new Map();
  const { keys } = await firstKeys(client);
  const described = keys.filter(({ id, description }) => wanted.has(id) && description !== "");
  return new Map(described.map(({ id, description }) => [id, description]));
}

async function firstKeys(client: Client): Promise<KeyPage> {
  try {
    return await client.call(KeyPage, { method: "GET", path: "/keys", query: { limit: MAX_LIST_KEYS } });
  } catch (error) {
    if (error instanceof GatewayError) return { keys: [], next: null };
    throw error;
  }
}
