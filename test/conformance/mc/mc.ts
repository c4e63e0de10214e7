import { cpSync } from "node:fs";
import { join } from "node:path";
import type { Door } from "../../support/keys.ts";
import { go, lacksGo } from "../go.ts";
import { runSteps } from "../run-steps.ts";
import { lacksCommands } from "../scripted.ts";
import type { Outcome, Suite } from "../suite.ts";
import { MC_STEPS } from "./steps.ts";

/** `mc` in steps of ours: its own tests are for a program that needs a gateway of its own kind. */
export const mc: Suite = {
  name: "mc",
  title: "MinIO's client mc, RELEASE.2025-03-12",
  about:
    "Steps of ours, a few commands each, that look at what came of them (`test/conformance/mc/steps.ts`).",
  // Of what they do with AES256.
  variables: { SLUICE_DISK_ENCRYPTED: "on" },
  async lacks() {
    return (await lacksGo()) ?? (await lacksCommands("bash", "curl", "jq"));
  },
  run: runMc,
};

async function runMc(door: Door, folder: string): Promise<Outcome[]> {
  const program = await build(folder);
  return await runSteps(MC_STEPS, {
    door,
    folder,
    client: {
      program,
      bucket: (name) => `here/${name}`,
      // An alias by a variable, so that steps share no configuration.
      env: ({ endpoint, accessKeyId, secretAccessKey }, own) => ({
        MC_CONFIG_DIR: join(own, ".mc"),
        MC_DISABLE_PAGER: "1",
        MC_QUIET: "1",
        MC_NO_COLOR: "1",
        MC_HOST_here: endpoint.replace("://", `://${accessKeyId}:${secretAccessKey}@`),
      }),
      preamble: PREAMBLE,
    },
  });
}

async function build(folder: string): Promise<string> {
  const program = join(folder, "mc");
  for (const file of ["go.mod", "go.sum"]) cpSync(join(import.meta.dirname, file), join(folder, file));
  await go(["build", "-trimpath", "-o", program, "github.com/minio/mc"], { cwd: folder });
  return program;
}

// `later` is a moment between what was written and what comes: mc tells times to the second.
const PREAMBLE = `version() { mc stat --json "$B/$1" | jq -r .versionID; }
later() { sleep 1.1; date -u +%FT%TZ; sleep 1.1; }
begin_upload() {
  curl -fsS --aws-sigv4 aws:amz:us-east-1:s3 --user "$KEY:$SECRET" -H 'x-amz-content-sha256: UNSIGNED-PAYLOAD' \\
    -X POST "$URL/$BUCKET/$1?uploads="
}
seen() { for try in $(seq 100); do curl -fsS "$1" >/dev/null 2>&1 && return 0; sleep 0.1; done; return 1; }
`;
