/** All items of pages. */
export async function allOf<Item>(
  page: (after: string | undefined) => Promise<{ items: readonly Item[]; next: string | null }>,
): Promise<Item[]> {
  const all: Item[] = [];
  for (let after: string | undefined; ; ) {
    const { items, next } = await page(after);
    all.push(...items);
    if (next === null) return all;
    after = next;
  }
}

/** A fault if two things are not the same. */
export function* differs(what: string, is: unknown, should: unknown): Generator<string> {
  const [one, other] = [is, should].map((each) => JSON.stringify(each));
  if (one !== other) yield `${what} is ${one?.slice(0, 300)} instead of ${other?.slice(0, 300)}`;
}

/** The paths that a datum reads, in order of the inputs' names, as its key has them. */
export function pathsOf(key: string): string[] {
  return key.split("\u0001").reverse();
}

export function keyOf(inputs: readonly { readonly path: string }[]): string {
  return inputs
    .map(({ path }) => path)
    .reverse()
    .join("\u0001");
}
