import { OTHER_FAMILY_CAUSE, OTHER_FAMILY_FIX } from "../../protocol/family.ts";
import type { Readiness } from "../../protocol/ready.ts";

/**
 * What `GET /readyz` tells a key that is not limited of each fault of a gateway. test/worker/ready.test.ts has the gateway tell
 * exactly this, test/node/cli/doctor.test.ts has doctor say it.
 */
export const FAULTS = {
  "a D1 that is away": {
    ready: false,
    failed: ["catalogue"],
    causes: [
      {
        check: "catalogue",
        cause: "The catalogue (D1) can't be reached or written for now: try again.",
        fix: "Look at the state of D1, and at its binding DB; nothing is lost meanwhile.",
      },
    ],
  },
  "a forgotten migration": {
    ready: false,
    failed: ["migrations"],
    causes: [
      {
        check: "migrations",
        // What stands behind it has the numbers of this release.
        cause: "D1 lacks a migration that this release needs: the newest that it has is ",
        fix: "Apply the migrations ('wrangler d1 migrations apply'), then try again.",
      },
    ],
  },
  "tables of another family": {
    ready: false,
    failed: ["migrations"],
    causes: [{ check: "migrations", cause: OTHER_FAMILY_CAUSE, fix: OTHER_FAMILY_FIX }],
  },
  "a full disk": {
    ready: true,
    failed: ["disk"],
    causes: [
      {
        check: "disk",
        cause:
          "The disk of the gateway's data is full (1.0 MiB are free, and 64.0 MiB are kept for deletions): files are read and deleted, and no new ones are taken.",
        fix: "Deleting files alone frees nothing, since history keeps their bytes. 'sluice repo usage' shows what takes most; 'sluice branch keep BRANCH.REPO --commits N' keeps less of a branch's history, and 'sluice file erase s3://BRANCH.REPO/PATH --all-versions' erases a file for good: both give room after two minutes. Or make room on that disk by other means.",
      },
    ],
  },
  // Nobody can sign, so nobody hears more; every other answer says which.
  "a missing secret": { ready: false, failed: ["configuration"] },
  "a missing encryption key": {
    ready: false,
    failed: ["configuration"],
    causes: [
      {
        check: "configuration",
        cause: "SLUICE_ENCRYPTION_KEY is missing, so that the access keys in D1 can't be used.",
        fix: "Set it to what it was when they were made ('wrangler secret put', or .dev.vars for 'wrangler dev').",
      },
    ],
  },
  "an object near its limit": {
    ready: true,
    failed: [],
    causes: [],
    almostFull: [
      {
        kind: "branch",
        name: "master.full",
        usedBytes: 970_752,
        limitBytes: 1_000_000,
        fix: "Keep less of its history: 'sluice branch keep master.full --commits N'. From 95 % on it takes deletions alone.",
      },
    ],
  },
} as const satisfies Record<string, Readiness>;
