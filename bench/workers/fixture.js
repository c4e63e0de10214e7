/**
 * The gateway, and some routes more, which make files look as if the pipeline's newest job had found them in its
 * input, had run a datum for each, and had written the same files to its output branch. Straight into the objects'
 * tables, as a million files would take hours otherwise. What the objects remember of their tables is not told: the
 * gateway to be measured is started anew over the same data.
 *
 * Rows go into each table in the order of its keys, and indexes in another order are made at the end: a row at a random
 * place of a large table costs ten times as much.
 */
import { createHash } from "node:crypto";
import { datumId, datumKey } from "../../worker/core/datums.ts";
import gateway, { Branch as RealBranch, Pipeline as RealPipeline } from "../../worker/index.ts";

/** Datums that are settled in one call. */
const SLICE = 20_000;

const ROUTES = {
  /** Before the first files. */
  async "/fixture/begin"(_request, objects) {
    await Promise.all(objects.map((object) => object.begin()));
  },
  /** More files, in order of their paths. */
  async "/fixture/add"({ files }, objects) {
    const identified = files.map(({ path, text }) => ({ path, text, ...contentOf(text) }));
    await Promise.all(objects.map((object) => object.add(identified)));
  },
  /** After the last files. */
  async "/fixture/end"(_request, objects) {
    await Promise.all(objects.map((object) => object.end()));
  },
  /** At last: results of the datums, in order of their ids. Answers where the next call goes on; null at the end. */
  async "/fixture/settle"({ after }, [pipeline]) {
    return await pipeline.settle(after);
  },
};

export default {
  async fetch(request, env, context) {
    const route = ROUTES[new URL(request.url).pathname];
    if (!route) return gateway.fetch(request, env, context);
    const { pipeline, input, output, ...asked } = await request.json();
    const branches = [input, output].map((bucket) => env.BRANCH.getByName(bucket));
    return Response.json((await route(asked, [env.PIPELINE.getByName(pipeline), ...branches])) ?? null);
  },
};

/** Up to 1 MiB, a content's digest is its plain SHA-256. */
function contentOf(text) {
  return { digest: sha256Hex(text), size: new TextEncoder().encode(text).length };
}

function sha256Hex(text) {
  return createHash("sha256").update(new TextEncoder().encode(text)).digest("hex");
}

/** An index that is away while rows are added. */
class LateIndex {
  #sql;
  #name;
  #statement;

  constructor(sql, name) {
    this.#sql = sql;
    this.#name = name;
  }

  drop() {
    this.#statement = this.#sql.exec("SELECT sql FROM sqlite_master WHERE name = ?", this.#name).one().sql;
    this.#sql.exec(`DROP INDEX ${this.#name}`);
  }

  make() {
    this.#sql.exec(this.#statement);
  }
}

export class Branch extends RealBranch {
  #index = new LateIndex(this.ctx.storage.sql, "contents_by_id");

  async begin() {
    this.#index.drop();
  }

  async end() {
    this.#index.make();
  }

  /** Gives birth to new files at the newest commit. */
  async add(files) {
    const { storage } = this.ctx;
    const { sql } = storage;
    const rows = JSON.stringify(files);
    storage.transactionSync(() => {
      const { gen, seq } = sql.exec("SELECT gen, seq FROM commits ORDER BY gen DESC, seq DESC LIMIT 1").one();
      sql.exec(
        `INSERT INTO contents (digest, size, gen, refs, kind, body, named)
         SELECT unhex(value ->> 'digest'), value ->> 'size', ?2, 1, 0, CAST(value ->> 'text' AS BLOB), 1
         FROM json_each(?1)`,
        rows,
        gen,
      );
      sql.exec(
        `INSERT INTO files (gen, path, born, kind, digest, size)
         SELECT ?2, value ->> 'path', ?3, 0, unhex(value ->> 'digest'), value ->> 'size' FROM json_each(?1)`,
        rows,
        gen,
        seq,
      );
      sql.exec("UPDATE commits SET births = births + ? WHERE gen = ? AND seq = ?", files.length, gen, seq);
    });
  }
}

/** A pipeline with one input, whose glob matches the files. */
export class Pipeline extends RealPipeline {
  #index = new LateIndex(this.ctx.storage.sql, "datums_by_id");

  async begin() {
    this.#index.drop();
  }

  async end() {
    this.#index.make();
  }

  /** Gives birth to a datum a file at the newest job. */
  async add(files) {
    const { storage } = this.ctx;
    const { sql } = storage;
    const { n, salt, spec } = this.#present();
    const [input] = JSON.parse(spec).inputs;
    const rows = JSON.stringify(files.map((file) => datumOf(file, input.name ?? input.repo.name)));
    storage.transactionSync(() => {
      sql.exec(
        `INSERT INTO elements (input, path, born, kind, digest, size)
         SELECT 0, value ->> 'path', ?2, 'file', value ->> 'digest', value ->> 'size' FROM json_each(?1)`,
        rows,
        n,
      );
      sql.exec(
        `INSERT INTO datums (key, born, id, salt)
         SELECT value ->> 'key', ?2, value ->> 'id', ?3 FROM json_each(?1)`,
        rows,
        n,
        salt,
      );
      sql.exec(
        `INSERT INTO published (path, key, id, salt, digest, size)
         SELECT value ->> 'path', value ->> 'key', value ->> 'id', ?2, value ->> 'digest', value ->> 'size'
         FROM json_each(?1)`,
        rows,
        salt,
      );
      sql.exec(
        `INSERT INTO made (path, born, key, id, salt)
         SELECT value ->> 'path', ?2, value ->> 'key', value ->> 'id', ?3 FROM json_each(?1)`,
        rows,
        n,
        salt,
      );
      sql.exec("UPDATE pipeline SET alive = alive + ?", files.length);
      sql.exec(
        "UPDATE jobs SET total = total + ?1, processed = processed + ?1, version = version + 1 WHERE n = ?2",
        files.length,
        n,
      );
    });
  }

  /** Makes successes of some datums that have no result, after one of them. */
  async settle(after) {
    const { storage } = this.ctx;
    const { sql } = storage;
    const { n, salt } = this.#present();
    const now = Date.now();
    const [last] = sql
      .exec(
        `SELECT max(id) AS id, count(*) AS count FROM (
           SELECT id FROM datums INDEXED BY datums_by_id WHERE id > ? ORDER BY id LIMIT ?)`,
        after,
        SLICE,
      )
      .toArray();
    if (last.count === 0) return null;
    storage.transactionSync(() => {
      sql.exec(
        `INSERT OR IGNORE INTO attempts (job, id, key, state, tries, lost, exitCode, finishedAt)
         SELECT ?3, id, key, 'success', 0, 0, 0, ?4 FROM datums WHERE id > ?1 AND id <= ?2 ORDER BY id`,
        after,
        last.id,
        n,
        now,
      );
      sql.exec(
        `INSERT OR IGNORE INTO results (id, salt, job, exitCode, millis, code, finishedAt)
         SELECT id, ?5, ?3, 0, 1, 0, ?4 FROM datums WHERE id > ?1 AND id <= ?2 ORDER BY id`,
        after,
        last.id,
        n,
        now,
        salt,
      );
      sql.exec(
        `INSERT OR IGNORE INTO outputs (id, salt, path, digest, size)
         SELECT d.id, d.salt, p.path, p.digest, p.size
         FROM datums AS d INDEXED BY datums_by_id JOIN published AS p ON p.path = d.key AND p.key = d.key
         WHERE d.id > ?1 AND d.id <= ?2 ORDER BY d.id`,
        after,
        last.id,
      );
    });
    return last.id;
  }

  #present() {
    return this.ctx.storage.sql
      .exec(`SELECT salt, spec, (SELECT max(n) FROM jobs) AS n FROM revisions ORDER BY revision DESC LIMIT 1`)
      .one();
  }
}

function datumOf({ path, digest, size }, input) {
  return {
    path,
    digest,
    size,
    key: datumKey([path]),
    id: datumId([{ input, path, digest, size }], sha256Hex),
  };
}
