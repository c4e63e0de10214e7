import { z } from "zod";

/** One problem with a request, at a JSON path such as `inputs[0].glob`. */
export const Issue = z.object({ path: z.string(), message: z.string() });
export type Issue = z.infer<typeof Issue>;

/** The body of every failed answer of the control API. */
export const ErrorBody = z.object({
  error: z.object({ code: z.string(), message: z.string(), issues: z.array(Issue).optional() }),
  requestId: z.string(),
});
export type ErrorBody = z.infer<typeof ErrorBody>;

/** For people: a 413 that is not the gateway's own. What answered has no words for them, only a page. */
export const TOO_LARGE_IN_FRONT =
  "what stands in front of the gateway refuses a body of this size (413): let it take bodies of 64 MiB, or ask the gateway itself";

/** The check of a body stops when it has found so many problems: an answer names no more. */
export const MAX_PROBLEMS = 100;

const List = z.core.$constructor("List", (inst: z.ZodArray, def: z.core.$ZodArrayDef) => {
  z.ZodArray.init(inst, def);
  const parse = inst._zod.parse;
  const longest = Math.min(
    ...(def.checks ?? []).map((check) =>
      check instanceof z.core.$ZodCheckMaxLength ? check._zod.def.maximum : Number.POSITIVE_INFINITY,
    ),
  );
  inst._zod.parse = (payload, context) => {
    const entries: unknown = payload.value;
    // One that is too long is refused for that alone, before an entry is looked at.
    if (!Array.isArray(entries) || entries.length > longest) return parse(payload, context);
    const read: unknown[] = [];
    for (let index = 0; index < entries.length; index++) {
      const one = parse({ value: [entries[index]], issues: [] }, context);
      if (one instanceof Promise) throw new z.core.$ZodAsyncError();
      for (const { path = [], ...issue } of one.issues)
        payload.issues.push({ ...issue, path: [index, ...path.slice(1)] });
      if (payload.issues.length >= MAX_PROBLEMS) return payload;
      read.push((one.value as unknown[])[0]);
    }
    payload.value = read;
    return payload;
  };
});

/**
 * What `z.array` makes, but its check stops at MAX_PROBLEMS: to look for all of a long list's, only to name the first ones,
 * takes a second in which the gateway serves nobody else. For lists of requests that may have more entries than that.
 */
export function list<T extends z.ZodType>(element: T): z.ZodArray<T> {
  return new List({ type: "array", element }) as unknown as z.ZodArray<T>;
}
