import { KeyPage, MAX_LIST_KEYS } from "../../../protocol/keys.ts";
import { type Client, GatewayError } from "../client.ts";

/**
 * What the keys are for that made some commits, by their ids. One without a description is missing, as are the root key and
 * those that were deleted. Only keys that handle keys may list them: any other is told nothing.
 */
export async function describeKeys(
  client: Client,
  commits: readonly { readonly key: string | null }[],
): Promise<ReadonlyMap<string, string>> {
  const wanted = new Set(commits.flatMap(({ key }) => (key === null ? [] : [key])));
  if (wanted.size === 0) return new Map();
  const found = new Map<string, string>();
  let after: string | undefined;
  do {
    const query = { limit: MAX_LIST_KEYS, after };
    const page: KeyPage = await client
      .call(KeyPage, { method: "GET", path: "/keys", query })
      .catch((error: unknown) => {
        if (error instanceof GatewayError && error.status === 403) return { keys: [], next: null };
        throw error;
      });
    for (const { id, description } of page.keys) {
      if (wanted.delete(id) && description !== "") found.set(id, description);
    }
    after = page.next ?? undefined;
  } while (after !== undefined && wanted.size > 0);
  return found;
}
