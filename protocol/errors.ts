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
