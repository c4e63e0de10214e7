import { type Invariant, inWorker } from "../mutant.ts";
import { HISTORIES } from "./shared-reads.ts";

const APP = "worker/app.ts";
const FACET = "worker/branch/calls/facet.ts";
const AHEAD = "worker/s3/auth/read-ahead.ts";
const GATEWAY = "worker/s3/gateway.ts";
const VERIFY = "worker/s3/auth/verify.ts";

const FIRST = inWorker("first-call");
const KEYS = inWorker("s3/auth/read-ahead");

/** A bucket is missing to one gateway only if it is missing to all. */
export const FIRST_CALLS: Invariant = {
  id: "2c",
  mutants: [
    {
      name: "The first row of a branch is there before its marker",
      file: FACET,
      text: "if (!ledger.exists || !ledger.generations.newest())",
      replacement: "if (ledger.exists && !ledger.generations.newest())",
      tests: [FIRST, HISTORIES],
    },
    {
      name: "A branch that only pipelines knew begins without a marker",
      file: FACET,
      text: "if (!ledger.exists || !ledger.generations.newest())",
      replacement: "if (!ledger.exists)",
      tests: [FIRST],
    },
    {
      name: "A branch is made although its marker can't be written",
      file: FACET,
      text: "      return error;\n",
      replacement: "",
      tests: [FIRST],
    },
    {
      name: "What a pipeline gave back while its marker was written is taken afterwards",
      file: FACET,
      text: "while (marking.size > 0) {",
      replacement: "while (marking.size < 0) {",
      tests: [FIRST],
    },
    {
      name: "What D1 does not know is missing, although it left a marker",
      file: APP,
      text: "      return marker !== null;\n",
      replacement: "      return false;\n",
      tests: [FIRST, HISTORIES],
    },
    {
      name: "A bucket is missing if D1 or R2 can't be asked",
      file: APP,
      text: "error);\n      return undefined;\n",
      replacement: "error);\n      return false;\n",
      tests: [FIRST],
    },
    {
      name: "A bucket that was missing once is not looked for again",
      file: "worker/objects/made-objects.ts",
      text: "    if ((await isMade(name, call)) === false) return true;\n    remember(name);\n    return false;\n",
      replacement:
        "    const made = await isMade(name, call);\n    remember(name);\n    return made === false;\n",
      tests: [FIRST],
    },
    {
      name: "A view of a bucket that is missing is answered as the bucket is",
      file: APP,
      text: "if (!isOfHead || !OF_NO_BRANCH",
      replacement: "if (!OF_NO_BRANCH",
      tests: [FIRST],
    },
  ],
};

/** What is read before the key of its sender is known is seen by nobody who may not read it, and calls no bucket that is not there. */
export const READ_AHEAD: Invariant = {
  id: "8e",
  mutants: [
    {
      name: "Whoever has no key has a bucket called that may not be there",
      file: GATEWAY,
      text: "  if (!context.config.probesBuckets) return undefined;\n",
      replacement: "",
      tests: [KEYS],
    },
    {
      name: "Bytes are opened before the signature was found good",
      file: AHEAD,
      text: "        await admitted;\n        return await store",
      replacement: "        return await store",
      tests: [KEYS],
    },
    {
      name: "What is thrown away is read on",
      file: AHEAD,
      text: '      refuse(new Error("the read was thrown away"));\n',
      replacement: "      void refuse;\n      admit();\n",
      tests: [KEYS],
    },
    {
      name: "The log tells of what was thrown away",
      file: AHEAD,
      text: "  const event: RequestEvent = {};\n",
      replacement: "  const event: RequestEvent = context.event;\n",
      tests: [KEYS],
    },
    {
      name: "What is kept near the reader counts by its age before the key was known",
      file: AHEAD,
      text: 'return found.by === "cache" ? await nearFiles.read(...asked) : found;',
      replacement: "return found;",
      tests: [KEYS],
    },
    {
      name: "Operations that do not say so begin before the key is known",
      file: GATEWAY,
      text: "if (!operation?.readsAhead) return undefined;",
      replacement: "if (!operation) return undefined;",
      tests: [KEYS],
    },
    {
      name: "Whoever signs wrongly has branches asked again and again",
      file: VERIFY,
      text: "if (!suspects.get(claim.keyId, now)) meanwhile",
      replacement: "meanwhile",
      tests: [KEYS],
    },
    {
      name: "Whoever makes ids up has branches asked again and again by one",
      file: VERIFY,
      text: "{ looking, unknown: suspect }",
      replacement: "{ looking, unknown: () => {} }",
      tests: [KEYS],
    },
  ],
};
