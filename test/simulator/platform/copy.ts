/**
 * What crosses between two objects: a copy, as RPC makes one. A function stays where it is: the other side has something that calls
 * it, which `called` makes.
 */
export function copied(value: unknown, called: (work: (...args: unknown[]) => unknown) => unknown): unknown {
  if (typeof value === "function") return called(value as (...args: unknown[]) => unknown);
  if (typeof value !== "object" || value === null) return value;
  if (value instanceof Uint8Array) return value.slice();
  if (value instanceof ReadableStream) return value;
  if (Array.isArray(value)) return value.map((item) => copied(item, called));
  if (value instanceof Map) {
    return new Map([...value].map(([key, item]) => [copied(key, called), copied(item, called)]));
  }
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype === Object.prototype || prototype === null) {
    return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, copied(item, called)]));
  }
  return structuredClone(value);
}
