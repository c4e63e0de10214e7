import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { findBubblewrap } from "../../../runner/executors/detect.ts";
import { readRootEntries } from "../../../runner/executors/process/machine.ts";
import { findEngines } from "../../support/engines.ts";
import { REST, sampled } from "../../support/suite.ts";
import { HostileStage } from "./hostile-stage.ts";

// Much is written and removed again; the time only bounds a hang.
vi.setConfig({ testTimeout: 300_000, hookTimeout: 300_000 });

const root = process.getuid?.() === 0;
const jail = await findBubblewrap({ root: await readRootEntries(), dataDir: "/none" });
const KINDS = [
  { executor: "process" as const, absent: typeof jail === "string", engine: undefined },
  ...(await findEngines()).map(({ name, engine }) => ({
    ...{ executor: name, absent: engine === undefined, engine },
  })),
];
const MIB = 1024 ** 2;

/** What a command may do to its outputs, and what the datum's reason says then. */
const SPOILED: readonly { readonly what: string; readonly script: string; readonly reason: RegExp }[] = [
  {
    what: "fills the quota with many files",
    script: "i=0; while :; do head -c 3000000 /dev/zero > /pfs/out/$i; i=$((i+1)); done",
    reason: /^the command wrote more than 64 MiB to \/pfs\/out \(--disk of node n1\)$/,
  },
  {
    what: "fills the quota with one file",
    script: "exec cat /dev/zero > /pfs/out/zero",
    reason: /^the command wrote (more than|a file larger than) 64 MiB.* \(--disk of node n1\)$/,
  },
  {
    what: "leaves files that are all hole",
    script: "dd if=/dev/null of=/pfs/out/holes bs=1 count=0 seek=60000000 && cp /pfs/out/holes /pfs/out/more",
    reason: /^the command wrote more than 64 MiB to \/pfs\/out/,
  },
  {
    what: "leaves a link to a file that it may not read",
    script: "ln -s /etc/shadow /pfs/out/evil",
    reason: /output "evil" is a symbolic link, a pipe, a socket or a device/,
  },
  {
    what: "leaves a link for a folder",
    script: "ln -s /etc /pfs/out/etc; ln -s / /pfs/out/root",
    reason: /output "(etc|root)" is a symbolic link/,
  },
  {
    what: "leaves a pipe",
    script: "mkdir /pfs/out/a; mkfifo /pfs/out/a/pipe",
    reason: /output "a\/pipe" is a symbolic link, a pipe/,
  },
  {
    what: "leaves a device",
    script: "mknod /pfs/out/disk b 7 0 || exit 7",
    reason: /output "disk" is a .* device|ended with exit code 7/,
  },
  {
    what: "writes names with newlines",
    script: "touch \"/pfs/out/$(printf 'new\\nline')\"",
    reason: /output file "new\\nline" can't be stored: a path must not hold control characters/,
  },
  {
    what: "writes names that are not UTF-8",
    script: "touch \"/pfs/out/$(printf 'bad\\377\\n\\376name')\"",
    reason: /output file "bad\\xff.*\\xfename" has a name that is not valid UTF-8/,
  },
  {
    what: "writes names that turn the text around",
    script: "ln -s /x \"/pfs/out/$(printf 'a\\342\\200\\256b')\"",
    reason: /output "a\\u202eb" is a symbolic link/,
  },
  {
    what: "goes down deeper than a path can say",
    script:
      "cd /pfs/out; i=0; while [ $i -lt 60 ]; do mkdir $D && cd -P $D || exit 3; i=$((i+1)); done; touch file".replaceAll(
        "$D",
        "d".repeat(100),
      ),
    reason: /output file "d.*…d+" can't be stored: a path must be at most 1024 bytes|exit code/,
  },
  {
    what: "writes more files than a datum may",
    script: "cd /pfs/out; seq 10001 | xargs touch",
    reason: /the command wrote more than 10000 files/,
  },
  {
    what: "closes what it leaves, and then a link",
    script: "mkdir -p /pfs/out/a/b; ln -s / /pfs/out/a/b/link; chmod 000 /pfs/out/a/b /pfs/out/a",
    reason: /output "a\/b\/link" is a symbolic link/,
  },
  {
    what: "makes more folders than a datum may write files",
    script: "cd /pfs/out; seq 10001 | xargs mkdir",
    reason: /the command wrote more than 10000 files/,
  },
  {
    what: "forks without end, with children in sessions of their own",
    script:
      "(setsid sh -c 'while :; do sleep 100 & done' &) ; while :; do sh -c 'while :; do sleep 100 & done' & sleep 0.1; done 2>/dev/null; exit 3",
    reason: /^the command (ended with exit code|was killed by)/,
  },
];

for (const { executor, absent, engine } of KINDS) {
  describe(`hostile commands, ${executor}`, executor === "process" ? {} : REST, () => {
    const needs = test.skipIf(absent);
    let stage: HostileStage;

    beforeAll(async () => {
      if (absent) return;
      if (engine) vi.stubEnv(executor === "docker" ? "DOCKER_HOST" : "CONTAINER_HOST", engine.host);
      const image = (await engine?.image("busybox")) ?? "any";
      const limits = { outBytes: 64 * MIB, ...((root || engine) && { pids: 60 }) };
      stage = await HostileStage.open({ executor, image, limits, engine });
    });
    afterAll(async () => {
      if (absent) return;
      await stage.close();
      await engine?.close();
      vi.unstubAllEnvs();
    });

    for (const [{ what, script, reason }, options] of sampled(SPOILED, { every: 4 })) {
      needs(
        `${executor}: a command that ${what} fails its datum, says why, and harms nobody`,
        options,
        async () => {
          const outcome = await stage.beside(script);
          expect(outcome.state).toBe("failed");
          expect(outcome.state === "failed" && outcome.reason).toMatch(reason);
        },
      );
    }
  });
}
