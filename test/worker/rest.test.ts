// @module-tag rest
import { env, listDurableObjectIds, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { expect, test } from "vitest";
import { api, good } from "./api/support.ts";
import {
  begin,
  branchOf as bucketOf,
  chunked,
  completion,
  stage,
  startOpenCommit,
} from "./branch/support.ts";
import { commit, leaseSome, makePipeline, makeRepo, workUntil } from "./pipeline/support.ts";

/** More rings than any work takes that needs no runner. */
const MANY = 20;

/** Every kind of object that the gateway binds, by the name of its binding. */
function kinds(): [string, DurableObjectNamespace<undefined>][] {
  return Object.entries(env).filter(
    (entry): entry is [string, DurableObjectNamespace<undefined>] =>
      Object(entry[1]).constructor.name === "DurableObjectNamespace",
  );
}

interface Asked {
  readonly kind: string;
  readonly name: string | undefined;
  readonly alarm: number | null;
}

/** As time brings it: everything that waits for a time is due. */
function letTimePass({ storage: { sql } }: DurableObjectState): void {
  const tables = sql
    .exec<{ name: string }>(
      "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT GLOB '_cf*' AND name NOT GLOB 'sqlite*'",
    )
    .toArray();
  for (const { name } of tables) {
    const columns = sql.exec<{ name: string }>(`SELECT name FROM pragma_table_info('${name}')`).toArray();
    for (const time of ["due", "closedAt"])
      if (columns.some((column) => column.name === time))
        sql.exec(`UPDATE ${name} SET ${time} = 1 WHERE ${time} > 1`);
  }
}

/** The ids of all objects that there are. Test files share a gateway: there are hundreds of others' when they ran before. */
async function allIds(): Promise<Set<string>> {
  const lists = await Promise.all(kinds().map(([, namespace]) => listDurableObjectIds(namespace)));
  return new Set(lists.flat().map(String));
}

/** Asks every object but `others` whether an alarm still stands, when all that was due has been done. */
async function askAll(others: Set<string>): Promise<Asked[]> {
  const asked: Asked[] = [];
  for (const [kind, namespace] of kinds()) {
    const ids = await listDurableObjectIds(namespace);
    for (const id of ids.filter((id) => !others.has(String(id)))) {
      const object = namespace.get(id);
      for (let rings = 0; rings < MANY; rings++) {
        await runInDurableObject(object, (_, state) => letTimePass(state));
        if (!(await runDurableObjectAlarm(object))) break;
      }
      const alarm = await runInDurableObject(object, (_, { storage }) => storage.getAlarm());
      asked.push({ kind, name: id.name, alarm });
    }
  }
  return asked;
}

/** An alarm that rings by itself just then is not asked to ring: what it does may not have come to its end. */
async function expectAllAtRest(others: Set<string>): Promise<void> {
  let asked: Asked[] = [];
  await expect
    .poll(async () => {
      asked = await askAll(others);
      return asked.filter(({ alarm }) => alarm !== null);
    })
    .toEqual([]);
  expect(new Set(asked.map(({ kind }) => kind))).toEqual(new Set(kinds().map(([kind]) => kind)));
}

test("every kind of object comes to rest after its work, after a stop and after its deletion: no alarm stands", async () => {
  const others = await allIds();
  // All tests have the same one.
  others.delete(String(env.FLEET.idFromName("fleet")));
  const { webSocket } = await api("GET /runner/socket?node=rest", { headers: { upgrade: "websocket" } });
  webSocket?.accept();
  // While a node has a socket, the object of nodes tells once a minute that it lives.
  webSocket?.close();
  await makeRepo("rest-in");
  const bucket = bucketOf("master.rest-in");
  const pipeline = await makePipeline({ name: "rest", globs: { "rest-in": "/*" } });
  await makePipeline({ name: "rest-next", globs: { rest: "/*" } });
  await commit("rest-in", { a: "1" });
  await workUntil(pipeline, { jobs: 1 });
  const upload = await begin(bucket);
  const part = chunked("one", ["b/1"]);
  await bucket.multipart.addPart({ upload, number: 1, content: part });
  await bucket.multipart.complete(completion(upload, { 1: part }));
  const given = await begin(bucket, { path: "given-up" });
  await bucket.multipart.addPart({ upload: given, number: 1, content: chunked("two", ["b/2"]) });
  await bucket.multipart.abort({ upload: given });
  const openCommit = await startOpenCommit(bucket);
  await stage(bucket, openCommit, { puts: ["staged"] });
  await bucket.openCommits.abort({ openCommit });
  await bucket.tags.create({ name: "v1", force: false });
  await bucket.tags.delete({ name: "v1" });
  await workUntil(pipeline, { jobs: 2 });
  await expectAllAtRest(others);

  await commit("rest-in", { b: "1" });
  await leaseSome(pipeline);
  await good("POST /pipelines/rest/stop");
  await expectAllAtRest(others);

  await good("DELETE /pipelines/rest-next");
  await good("DELETE /pipelines/rest");
  expect(await bucket.lifecycle.destroy()).toEqual({ ok: true });
  await expectAllAtRest(others);
});
