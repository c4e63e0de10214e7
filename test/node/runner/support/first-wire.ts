import { z } from "zod";

/**
 * The requests of a runner as a gateway of the first version of the wire takes them: it refuses a field that it does not
 * know. Frozen: this is what such gateways do, whatever the protocol becomes.
 */

const Text = z.string();
const Content = { digest: Text, size: z.int() };
const Lines = z.array(z.tuple([z.int(), Text]));
const Ended = { lease: Text, millis: z.int() };

const Outcome = z.discriminatedUnion("state", [
  z.strictObject({
    ...Ended,
    state: z.literal("success"),
    exitCode: z.int(),
    outputs: z.array(z.strictObject({ path: Text, ...Content, bytes: Text.optional() })),
    upload: Text.optional(),
  }),
  z.strictObject({
    ...Ended,
    state: z.literal("failed"),
    exitCode: z.int().nullable(),
    reason: Text,
    log: Text,
    endsJob: z.literal(true).optional(),
  }),
  z.strictObject({
    ...Ended,
    state: z.literal("merged"),
    content: z.object(Content),
    bytes: Text.optional(),
    upload: Text.optional(),
  }),
  z.strictObject({ ...Ended, state: z.literal("pushed") }),
  z.strictObject({ lease: Text, state: z.literal("returned") }),
]);

const Work = z.strictObject({ pipeline: Text, workers: z.int(), running: z.int() });
const worker = { pipeline: Text, worker: Text };

/** By `METHOD path`. */
export const FIRST_WIRE: Readonly<Record<string, z.ZodType>> = {
  "POST /api/v1/runner/heartbeat": z.strictObject({
    node: Text,
    executor: Text,
    capacity: z.int(),
    work: z.array(Work).optional(),
  }),
  "POST /api/v1/runner/lease": z.strictObject({ ...worker, node: Text, max: z.int() }),
  "POST /api/v1/runner/renew": z.strictObject({
    ...worker,
    leases: z.array(Text),
    leaving: z.literal(true).optional(),
    trouble: Text.nullable().optional(),
  }),
  "POST /api/v1/runner/finish": z.strictObject({ ...worker, outcomes: z.array(Outcome) }),
  "POST /api/v1/runner/logs": z.strictObject({
    ...worker,
    entries: z.array(z.strictObject({ lease: Text, seq: z.int(), dropped: z.int(), lines: Lines })),
  }),
  "POST /api/v1/uploads": z.strictObject({ repo: Text, branch: Text, lease: Text.optional() }),
};
