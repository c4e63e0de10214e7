import { join } from "node:path";
import { z } from "zod";
import type { Door } from "../support/keys.ts";
import { run } from "../support/processes.ts";
import { S3 } from "../support/s3.ts";
import { goEnv, lacksGo } from "./go.ts";
import { startSts } from "./sts.ts";
import type { Outcome, Suite } from "./suite.ts";

/** Its go.mod has the versions of all of them. */
const MODULE = join(import.meta.dirname, "go");
const AWS = "github.com/aws/aws-sdk-go-v2/feature/s3";
const REGISTRY_BUCKET = "registry";

const transfermanager = suiteOf({
  name: "transfermanager",
  title: "AWS's transfer managers for Go: transfermanager 0.5.7 and manager 1.23.24",
  about: "Their integration tests, as they are (`go test -tags integration -run ^TestInteg`).",
  async test(door) {
    const sts = await startSts();
    try {
      const packages = [`${AWS}/transfermanager`, `${AWS}/manager`];
      const options = ["-tags", "integration", "-run", "^TestInteg"];
      const env = { ...awsEnv(door), AWS_ENDPOINT_URL_STS: sts.endpoint };
      return await goTest(packages, { options, env });
    } finally {
      await sts.stop();
    }
  },
});

const gocloud = suiteOf({
  name: "gocloud",
  title: "gocloud.dev 0.48.0",
  about: "Its conformance tests of drivers (`drivertest.RunConformanceTests`), with its driver for S3.",
  test: (door) => goTest(["./gocloud"], { env: awsEnv(door) }),
});

const thanos = suiteOf({
  name: "thanos",
  title: "thanos-io/objstore of 2025-08-04",
  about: "Its acceptance test of object stores (`objstore.AcceptanceTest`), with its store for S3.",
  test: (door) => goTest(["./thanos"], { env: awsEnv(door) }),
});

const registry = suiteOf({
  name: "registry",
  title: "The registry's driver for S3: distribution 3.1.2",
  about:
    "The driver's own tests, as they are (`go test -short`: without the one of 5 GiB), with `SLUICE_LAST_MODIFIED=object`, " +
    "as for all [clients that compare times](s3-clients.md#clients-that-compare-times).",
  variables: { SLUICE_LAST_MODIFIED: "object" },
  async test(door) {
    await new S3(door).createBucket(REGISTRY_BUCKET);
    const env = {
      AWS_ACCESS_KEY: door.accessKeyId,
      AWS_SECRET_KEY: door.secretAccessKey,
      AWS_REGION: "us-east-1",
      AWS_S3_FORCE_PATH_STYLE: "true",
      REGION_ENDPOINT: door.endpoint,
      S3_ACCELERATE: "false",
      S3_BUCKET: REGISTRY_BUCKET,
      S3_ENCRYPT: "false",
      S3_SECURE: "false",
    };
    const driver = "github.com/distribution/distribution/v3/registry/storage/driver/s3-aws";
    return await goTest([driver], { options: ["-short"], env });
  },
});

/** Suites in Go that others publish, and that run as they are, or by a few lines of ours that call them. */
export const GO_SUITES: readonly Suite[] = [transfermanager, gocloud, thanos, registry];

function suiteOf({
  test,
  variables = {},
  ...told
}: Pick<Suite, "name" | "title" | "about"> & {
  readonly variables?: Readonly<Record<string, string>>;
  test(door: Door): Promise<Outcome[]>;
}): Suite {
  return { ...told, variables, lacks: lacksGo, run: test };
}

/** What AWS's SDK reads, and no settings of this machine's user. */
function awsEnv({ endpoint, accessKeyId, secretAccessKey }: Door): Record<string, string> {
  return {
    AWS_ENDPOINT_URL: endpoint,
    AWS_ACCESS_KEY_ID: accessKeyId,
    AWS_SECRET_ACCESS_KEY: secretAccessKey,
    AWS_REGION: "us-east-1",
    AWS_CONFIG_FILE: "/dev/null",
    AWS_SHARED_CREDENTIALS_FILE: "/dev/null",
    AWS_EC2_METADATA_DISABLED: "true",
  };
}

const Event = z.object({
  Action: z.string(),
  Package: z.string().optional(),
  Test: z.string().optional(),
  Output: z.string().optional(),
});

/** Runs the tests of packages. One with others below it is told only if it failed and none of these did. */
async function goTest(
  packages: readonly string[],
  {
    options = [],
    env,
  }: { readonly options?: readonly string[]; readonly env: Readonly<Record<string, string>> },
): Promise<Outcome[]> {
  // With what go.mod says, a package's own tests need sums that are kept with it, and no others are added.
  const command = ["go", "test", "-json", "-count=1", "-p=1", ...options, ...packages];
  const { stdout, stderr } = await run(command, { cwd: MODULE, env: { ...goEnv(), ...env } });
  const ended = new Map<string, boolean>();
  const said = new Map<string, string>();
  const lines = stdout
    .toString()
    .split("\n")
    .filter((line) => line.startsWith("{"));
  for (const line of lines) {
    const { Action, Test, Output } = Event.parse(JSON.parse(line));
    if (Test === undefined) continue;
    if (Action === "output") said.set(Test, `${said.get(Test) ?? ""}${Output ?? ""}`);
    if (Action === "pass" || Action === "fail") ended.set(Test, Action === "pass");
  }
  if (ended.size === 0) throw new Error(`${command.join(" ")} ran no test:\n${stdout}\n${stderr}`);
  const tests = [...ended].map(([test, passed]) => ({ test, passed, said: said.get(test) ?? "" }));
  return tests.filter(({ test, passed }) => {
    const below = tests.filter((other) => other.test.startsWith(`${test}/`));
    return passed ? below.length === 0 : below.every((other) => other.passed);
  });
}
