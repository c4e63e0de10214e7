import type { Invariant } from "../mutant.ts";
import { ARCHIVES, COPIES, IMPORTS } from "./archives.ts";
import { ANSWERS, DISK, MEMORY, RESTS } from "./bounds.ts";
import { CACHES, ERASED, ERASED_INPUTS, REDACTED, SCRUBBED } from "./erasures.ts";
import { FIRST_CALLS, READ_AHEAD } from "./first-calls.ts";
import { NODES, WAKE_UPS } from "./fleet.ts";
import { FAILURES, ONE_JOB, ONE_RESULT, OUTPUTS } from "./jobs.ts";
import { DELETIONS, FORKS, HISTORY, LOANS, ORPHANS, WHOLE_BODIES } from "./kept-bytes.ts";
import { NAMES, ORDER, POWER_CUTS, WHOLE } from "./names-and-commits.ts";
import { NEAR_FILES } from "./near-files.ts";
import { PROTECTED, PUBLIC, RULES, SCOPES, SECRETS } from "./permissions.ts";
import { ANNOTATIONS, CIRCLES, LATE_UPLOADS, PROVENANCE, RELEASES } from "./pipelines.ts";
import { BORDERS, EGRESS, PLACES } from "./runners.ts";
import { SHARED_READS } from "./shared-reads.ts";

/** In the order of the page. */
export const INVARIANTS: readonly Invariant[] = [
  ...[NAMES, POWER_CUTS, ORDER, SHARED_READS, NEAR_FILES, FIRST_CALLS, WHOLE, ONE_JOB, ONE_RESULT, OUTPUTS],
  ...[FAILURES, SCOPES, SECRETS, PUBLIC, PROTECTED, RULES, READ_AHEAD, MEMORY],
  ...[DELETIONS, FORKS, HISTORY, ORPHANS, WHOLE_BODIES, ERASED, ERASED_INPUTS],
  ...[ARCHIVES, COPIES, LOANS, IMPORTS, CACHES, EGRESS, BORDERS, PLACES],
  ...[CIRCLES, ANSWERS, DISK, WAKE_UPS, NODES, RESTS],
  ...[ANNOTATIONS, RELEASES, LATE_UPLOADS, REDACTED, SCRUBBED, PROVENANCE],
];
