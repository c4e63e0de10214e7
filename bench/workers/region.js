/**
 * The gateway in a region of its own: objects, D1 and R2 are FAR_MS away, there and back. Beside it is R2 alone, below `/bare/`,
 * and `/far` tells how often something was far since that was asked last.
 */
import { default as gateway, Blobs as HomeBlobs } from "../../worker/index.ts";

let trips = 0;
/** What the gateway keeps, it keeps for an environment. */
const farEnvs = new WeakMap();
const allCaches = globalThis.caches;
let region = "";

export default {
  async fetch(request, env, context) {
    region = env.REGION;
    const far = farEnvOf(env);
    const { pathname } = new URL(request.url);
    if (pathname === "/far") {
      const told = Response.json({ trips });
      trips = 0;
      return told;
    }
    if (pathname.startsWith("/bare/")) return await bare(request, far.BLOBS, pathname);
    return await gateway.fetch(request, far, context);
  },
};

export class Blobs extends HomeBlobs {
  constructor(context, env) {
    super(context, farEnvOf(env));
  }
}

// As in a data center, whose cache has nothing of others.
Object.defineProperty(globalThis, "caches", {
  value: {
    default: {
      match: async (request) => await (await allCaches.open(region)).match(request),
      put: async (request, answer) => await (await allCaches.open(region)).put(request, answer),
    },
  },
});

function farEnvOf(env) {
  let far = farEnvs.get(env);
  if (!far) {
    const ms = Number(env.FAR_MS);
    far = { ...env, BLOBS: farBucket(env.BLOBS, ms), DB: farDatabase(env.DB, ms) };
    for (const objects of ["BRANCH", "PIPELINE"]) far[objects] = farObjects(env[objects], ms);
    farEnvs.set(env, far);
  }
  return far;
}

async function there(ms, work) {
  if (ms === 0) return await work();
  trips++;
  await scheduler.wait(ms / 2);
  try {
    return await work();
  } finally {
    await scheduler.wait(ms / 2);
  }
}

function farObjects(objects, ms) {
  return {
    getByName(name) {
      const object = objects.getByName(name);
      return { call: (call, args) => there(ms, () => object.call(call, args)) };
    },
  };
}

function farBucket(blobs, ms) {
  const calls = ["get", "put", "list", "delete", "head"];
  return Object.fromEntries(calls.map((call) => [call, (...args) => there(ms, () => blobs[call](...args))]));
}

function farDatabase(db, ms) {
  const statements = new WeakMap();
  const farStatement = (statement) => {
    const calls = ["first", "all", "run", "raw"];
    const far = Object.fromEntries(
      calls.map((call) => [call, (...args) => there(ms, () => statement[call](...args))]),
    );
    far.bind = (...values) => farStatement(statement.bind(...values));
    statements.set(far, statement);
    return far;
  };
  return {
    prepare: (query) => farStatement(db.prepare(query)),
    batch: (all) => there(ms, () => db.batch(all.map((each) => statements.get(each) ?? each))),
  };
}

async function bare(request, blobs, name) {
  if (request.method === "PUT") {
    await blobs.put(name, await request.arrayBuffer());
    return new Response(null);
  }
  if (request.method === "HEAD") return new Response(null, { status: (await blobs.head(name)) ? 200 : 404 });
  const found = await blobs.get(name);
  return new Response(found?.body ?? null, { status: found ? 200 : 404 });
}
