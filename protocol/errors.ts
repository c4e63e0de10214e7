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
