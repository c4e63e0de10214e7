/** One side of a cross product: items in order of their path, found by seeking, so that no side is ever held whole. */
export interface Axis<T extends { readonly path: string }> {
  /** The item at exactly this path. */
  at(path: string): T | undefined;
  /** The first item after this path; the very first for null. */
  after(path: string | null): T | undefined;
}

/** A side that is held whole; its items are in order of their path. */
export function axisOf<T extends { readonly path: string }>(items: readonly T[]): Axis<T> {
  const indexOf = new Map(items.map(({ path }, index) => [path, index]));
  const at = (path: string): T | undefined => items[indexOf.get(path) ?? -1];
  return { at, after: (path) => items[path === null ? 0 : (indexOf.get(path) ?? -2) + 1] };
}

/**
 * Every combination of one item from each axis, the first axis varying fastest, beginning after `from` (the paths of
 * the last one that was taken) or at the start for null. The axes may not change between `from` and now.
 */
export function* combinations<T extends { readonly path: string }>(
  axes: readonly Axis<T>[],
  from: readonly string[] | null,
): Generator<readonly T[]> {
  let current = from === null ? firstOf(axes) : step(axes, itemsAt(axes, from));
  while (current) {
    yield current;
    current = step(axes, current);
  }
}

function firstOf<T extends { readonly path: string }>(axes: readonly Axis<T>[]): T[] | undefined {
  const items: T[] = [];
  for (const axis of axes) {
    const item = axis.after(null);
    if (!item) return undefined;
    items.push(item);
  }
  return items;
}

function itemsAt<T extends { readonly path: string }>(
  axes: readonly Axis<T>[],
  paths: readonly string[],
): T[] | undefined {
  const items = axes.map((axis, index) => axis.at(paths[index] as string));
  return items.every((item) => item !== undefined) ? items : undefined;
}

function step<T extends { readonly path: string }>(
  axes: readonly Axis<T>[],
  items: readonly T[] | undefined,
): T[] | undefined {
  if (!items) return undefined;
  const moved = [...items];
  for (const [index, axis] of axes.entries()) {
    const next = axis.after((items[index] as T).path);
    if (next) {
      moved[index] = next;
      return moved;
    }
    const first = axis.after(null);
    if (!first) return undefined;
    moved[index] = first;
  }
  return undefined;
}
