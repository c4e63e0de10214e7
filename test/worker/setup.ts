import { applyD1Migrations, env, reset, runInDurableObject } from "cloudflare:test";
import { afterAll, beforeAll, vi } from "vitest";
import { watchUnkept } from "./branch/unkept.ts";

/** Many files share one runtime, whose start takes longer than most files. Each begins with nothing stored. */
const namespaces: Pick<DurableObjectNamespace, "getByName"> = Object.getPrototypeOf(env.BRANCH);
const { getByName } = namespaces;
const wakers = new Map<string, () => Promise<unknown>>();
let watch: ReturnType<typeof watchUnkept> | undefined;

beforeAll(async () => {
  watch = watchUnkept();
  namespaces.getByName = function (name, options) {
    const stub = getByName.call(this, name, options);
    wakers.set(`${stub.id}`, () => runInDurableObject(getByName.call(this, name), () => {}));
    return stub;
  };
  await applyD1Migrations(env.DB, env.TEST_MIGRATIONS);
});

afterAll(async () => {
  watch?.stop();
  namespaces.getByName = getByName;
  vi.restoreAllMocks();
  // `reset` passes over objects that sleep. One that a test killed may need a second call, and one that it damaged does not wake.
  const isAwake = async (wake: () => Promise<unknown>) => await wake().catch(wake);
  await Promise.allSettled([...wakers.values()].map(isAwake));
  await Promise.all([env.DB.exec("SELECT 1"), env.BLOBS.head("none")]);
  await reset();
});
