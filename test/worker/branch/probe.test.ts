import { env, runInDurableObject } from "cloudflare:test";
import { test } from "vitest";
test("probe", async () => {
  const stub = env.BRANCH.getByName("master.probe");
  await runInDurableObject(stub, async (_i, state) => {
    console.log("name", state.id.name);
    const sql = state.storage.sql;
    sql.exec("CREATE TABLE files(gen INTEGER, path TEXT, born INTEGER, died INTEGER, kind INTEGER, digest BLOB, size INTEGER, attributes TEXT, PRIMARY KEY(gen,path,born)) WITHOUT ROWID");
    sql.exec("CREATE UNIQUE INDEX head ON files(gen, path) WHERE died IS NULL");
    sql.exec("CREATE INDEX by_born ON files(gen, born, path)");
    sql.exec("CREATE INDEX by_died ON files(gen, died, path) WHERE died IS NOT NULL");
    const tryit = (label: string, text: string, ...b: unknown[]) => { try { console.log(label, JSON.stringify(sql.exec(text, ...b).toArray())); } catch (e) { console.log(label, "ERR", String(e)); } };
    tryit("hex", "SELECT lower(hex(x'ab')) h, unhex('abcd') u");
    tryit("json_each", "SELECT value FROM json_each(?)", JSON.stringify(["a", "b"]));
    tryit("explain", "EXPLAIN QUERY PLAN SELECT path FROM files INDEXED BY head WHERE gen=1 AND died IS NULL AND path>='a' AND path < ? ORDER BY path LIMIT 1", new Uint8Array(0));
    tryit("union", `EXPLAIN QUERY PLAN SELECT path FROM files INDEXED BY head WHERE gen=1 AND died IS NULL AND path>='a' AND born<=3 UNION ALL SELECT path FROM files INDEXED BY by_died WHERE gen=1 AND died>3 AND path>='a' AND born<=3 ORDER BY path LIMIT 4`);
    tryit("blobcmp", "SELECT 'zz' < ? AS x", new Uint8Array(0));
    tryit("notnull partial", `EXPLAIN QUERY PLAN SELECT path FROM files INDEXED BY by_died WHERE gen=1 AND died=3 AND path>'a' ORDER BY path`);
    tryit("rowvalue", `EXPLAIN QUERY PLAN SELECT born FROM files WHERE (gen, path) > (1,'a') ORDER BY gen, path LIMIT 1`);
    tryit("cte", `EXPLAIN QUERY PLAN WITH RECURSIVE walk(path) AS (SELECT (SELECT path FROM files WHERE gen=1 AND path>='a' AND path<'b' ORDER BY path LIMIT 1) UNION ALL SELECT (SELECT path FROM files WHERE gen=1 AND path>walk.path AND path<'b' ORDER BY path LIMIT 1) FROM walk WHERE walk.path IS NOT NULL)
      SELECT f.path, f.digest FROM walk CROSS JOIN files f ON f.gen=1 AND f.path=walk.path AND f.born=(SELECT max(born) FROM files WHERE gen=1 AND path=walk.path AND born<=5) WHERE (f.died IS NULL OR f.died>5)`);
    const t = (label: string, n: number, f: (i: number) => void) => { const a = performance.now(); state.storage.transactionSync(() => { for (let i = 0; i < n; i++) f(i); }); console.log(label, n, ((performance.now() - a) * 1000 / n).toFixed(2), "us"); };
    const d = new Uint8Array(32).fill(7);
    t("insert", 20000, (i) => sql.exec("INSERT INTO files VALUES(1,?,?,NULL,0,?,?,NULL)", `dir${i % 100}/file${i}`, i, d, 5));
    t("seek", 20000, (i) => sql.exec("SELECT born FROM files INDEXED BY head WHERE gen=1 AND path=? AND died IS NULL", `dir${i % 100}/file${i}`).toArray());
    t("seek raw", 20000, (i) => [...sql.exec("SELECT born FROM files INDEXED BY head WHERE gen=1 AND path=? AND died IS NULL", `dir${i % 100}/file${i}`).raw()]);
    t("seek next", 20000, (i) => sql.exec("SELECT born FROM files INDEXED BY head WHERE gen=1 AND path=? AND died IS NULL", `dir${i % 100}/file${i}`).next());
    t("dbsize", 2000, () => sql.databaseSize);
    t("list1000", 20, () => sql.exec("SELECT path, lower(hex(digest)) d, size FROM files INDEXED BY head WHERE gen=1 AND path>=? AND died IS NULL ORDER BY path LIMIT 1000", "dir5").toArray());
    t("list1000raw", 20, () => [...sql.exec("SELECT path, lower(hex(digest)) d, size FROM files INDEXED BY head WHERE gen=1 AND path>=? AND died IS NULL ORDER BY path LIMIT 1000", "dir5").raw()]);
    t("nested txn", 2000, () => state.storage.transactionSync(() => sql.exec("UPDATE files SET size=size+1 WHERE gen=1 AND path='dir1/file1'")));
    const c = sql.exec("SELECT path FROM files INDEXED BY head WHERE gen=1 AND died IS NULL ORDER BY path");
    console.log("lazy", c.next().value, c.rowsRead);
    tryit("far", `WITH RECURSIVE walk(path) AS (SELECT (SELECT path FROM files WHERE gen=1 AND path>='a' AND path<'z' ORDER BY path LIMIT 1) UNION ALL SELECT (SELECT path FROM files WHERE gen=1 AND path>walk.path AND path<'z' ORDER BY path LIMIT 1) FROM walk WHERE walk.path IS NOT NULL)
      SELECT f.path FROM walk CROSS JOIN files f ON f.gen=1 AND f.path=walk.path AND f.born=(SELECT max(born) FROM files WHERE gen=1 AND path=walk.path AND born<=5) WHERE (f.died IS NULL OR f.died>5)`);
  });
});
